"""Export folders are pushed to the Hugging Face Hub; a stand-in with its signatures takes the place of the client."""

import json
from pathlib import Path
from unittest.mock import MagicMock, create_autospec

import huggingface_hub
import pytest
from huggingface_hub.utils import filter_repo_objects

from rlher.core.errors import UserError
from rlher.export import hub


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    client = create_autospec(huggingface_hub.HfApi)
    client.return_value.create_repo.side_effect = lambda name, **_: f"https://hub/{name}"
    monkeypatch.setattr(huggingface_hub, "HfApi", client)
    return client


def test_the_files_of_the_export_are_pushed(rlher, run: Path, client: MagicMock) -> None:
    Path("out").mkdir()
    Path("out/private.txt").write_text("not part of the export")
    done = rlher("export", str(run), "--push", "me/reach", "--output", "out", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["url"] == "https://hub/me/reach"
    pushed = client.return_value.upload_folder.call_args.kwargs
    assert pushed["repo_id"] == "me/reach"
    assert run.name in pushed["commit_message"]
    names = {path.name for path in Path(pushed["folder_path"]).iterdir()}
    files = {*filter_repo_objects(names, allow_patterns=pushed["allow_patterns"])}
    assert {"README.md", "play.py", "dqn-BitFlipping-v0.zip"} <= files == names - {"private.txt"}

    assert rlher("export", str(run), "--push", "me").code == 0
    assert client.return_value.create_repo.call_args.args == ("me/dqn-BitFlipping-v0",)


def test_a_missing_server_is_one_sentence_and_the_export_is_kept(rlher, run: Path, monkeypatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # of HF_ENDPOINT at its import
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    done = rlher("export", str(run), "--push", "me/reach", "--output", "out")
    assert done.code == 2
    assert "hf_token" not in done.err
    assert Path("out/play.py").exists()


@pytest.mark.parametrize("name", ["a/b/c", "/b", "a/", "https://huggingface.co/a/b", "a b", ""])
def test_an_invalid_repository_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        hub.require_pushable(name)
