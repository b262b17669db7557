"""Export folders are pushed to a local server that stands in for the Hugging Face Hub."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rlher.core.errors import UserError
from rlher.evaluation.export import exporter
from tests.conftest import TINY


class HubServer(ThreadingHTTPServer):
    """Answers what huggingface_hub asks for when it creates a repository and commits small files."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.created: list[str] = []
        self.files: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.logins: set[str | None] = set()
        self.refuses = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        hub_server, commit = self.server, f"{self.server.address}/me/reach/commit/{'a' * 40}"
        hub_server.logins.add(self.headers.get("authorization"))
        if hub_server.refuses:
            self._answer({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            values = json.loads(body)
            hub_server.created.append(f"{values['organization']}/{values['name']}")
            self._answer({"url": f"{hub_server.address}/{hub_server.created[-1]}"})
        elif "/preupload/" in self.path:
            files = [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]
            self._answer({"files": files})
        elif "/commit/" in self.path:
            header, *items = (json.loads(line)["value"] for line in body.splitlines())
            hub_server.commits.append(header["summary"])
            hub_server.files |= {item["path"]: base64.b64decode(item["content"]) for item in items}
            self._answer({"success": True, "commitOid": "a" * 40, "commitUrl": commit})
        else:
            self._answer({})

    def _answer(self, values: dict, status: int = 200) -> None:
        content = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", "hf_token")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def trained(rlher) -> Path:
    words = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "total_timesteps=60")
    assert rlher("train", *words).code == 0
    return Path("logs/dqn/BitFlipping-v0_1")


@pytest.mark.slow
def test_the_files_of_the_export_arrive(rlher, trained: Path, server: HubServer) -> None:
    Path("out").mkdir()
    Path("out/private.txt").write_text("not part of the export")
    done = rlher("export", str(trained), "--push", "me/reach", "--output", "out", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["url"] == f"{server.address}/me/reach"
    assert server.created == ["me/reach"]
    assert server.logins == {"Bearer hf_token"}
    assert trained.name in server.commits[0]
    written = {path.name: path.read_bytes() for path in Path("out").iterdir() if path.name != "private.txt"}
    assert {"README.md", "play.py", "dqn-BitFlipping-v0.zip"} <= written.keys()
    assert server.files == written

    assert rlher("export", str(trained), "--push", "me").code == 0
    assert server.created[-1] == "me/dqn-BitFlipping-v0"


def test_a_refused_login_and_a_missing_server_are_one_sentence_and_the_export_is_kept(
    rlher, trained: Path, server: HubServer
) -> None:
    server.refuses = True
    refused = rlher("export", str(trained), "--push", "me/reach", "--output", "out")
    server.server_close()
    offline = rlher("export", str(trained), "--push", "me/reach", "--output", "out")
    for done in (refused, offline):
        assert done.code == 2
        assert done.err.count("Traceback") == 0
        assert "hf_token" not in done.err
    assert Path("out/play.py").exists()


@pytest.mark.parametrize("name", ["a/b/c", "/b", "a/", "https://huggingface.co/a/b", "a b", ""])
def test_an_invalid_repository_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        exporter.require_pushable(name)
