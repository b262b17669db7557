"""Run folders from untrusted sources: malicious names, and files of unlimited size; nothing in them is run as code."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rlher.core.errors import DamagedFile, UserError
from rlher.core.reading import read_json_or_empty, read_table, read_text_or_empty, read_yaml, require_safe_to_write
from rlher.core.writing import display_path
from rlher.export import play
from rlher.run.run_folder import read_config
from tests.conftest import Make
from tests.support.fuzzing.checks import time_limit
from tests.support.fuzzing.workspace import TRAIN

SECRET = "the private key"
SECONDS = 10
"""Time limit of a command."""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A private file outside the run folder."""
    file = tmp_path / "id_rsa"
    file.write_text(SECRET)
    return file


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# ------------------------------------------------------------------------------------------------ export


MALICIOUS_NAMES = {
    "end of docstring": 'x"""\nimport os; os.system("touch hacked")\n"""',
    "quotes": "x'\"\\\n---\n```\n<script>hacked</script> `$name` {env} $",
    "control characters": "\ud800\0\x1b[31m",
    "long": "x" * 50_000,
}


@pytest.mark.parametrize("kind", MALICIOUS_NAMES)
def test_names_cannot_add_markup_to_a_model_card(rlher, untrusted: Path, kind: str) -> None:
    config = yaml.safe_load((untrusted / "config.yaml").read_text())
    config["env"]["name"] = MALICIOUS_NAMES[kind]
    (untrusted / "config.yaml").write_text(yaml.safe_dump(config))
    meta = json.loads((untrusted / "meta.json").read_text())
    meta |= {"python": "3\n```\n<script>hacked</script>", "git": {"commit": "<a><b>`\n---"}}
    (untrusted / "meta.json").write_text(json.dumps(meta))
    assert rlher("export", str(untrusted), "--output", "export").code == 0
    assert Path("export/play.py").read_bytes() == Path(play.__file__).read_bytes(), "no name is part of the script"
    _, front, body = Path("export/README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "stable-baselines3"
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", body, flags=re.DOTALL | re.MULTILINE)
    assert "<" not in outside
    assert "```" not in outside
    assert re.findall("^#+ .*", outside, re.MULTILINE)[1:] == ["## Results", "## Usage", "## Training"]


def test_an_export_folder_that_is_a_link_is_refused(rlher, untrusted: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("mine")
    (untrusted / "export").symlink_to("../project")
    done = rlher("export", str(untrusted))
    assert done.code == 2
    assert str(untrusted / "export") in done.err
    assert [file.name for file in project.iterdir()] == ["README.md"]
    assert rlher("export", str(untrusted), "--output", str(untrusted / "export")).code == 0, "named on the command line"


def test_a_link_in_an_export_folder_is_replaced(rlher, untrusted: Path, private: Path) -> None:
    names = ("README.md", "play.py", "requirements.txt", "bit_flipping.py", "replay.mp4", "agent.json")
    for name in (*names, "dqn-BitFlipping-v0.zip"):
        link(untrusted / "export" / name, private)
    (untrusted / "clips").mkdir(exist_ok=True)
    (untrusted / "clips" / "60.mp4").write_bytes(b"video")
    assert rlher("export", str(untrusted), "--model", "last").code == 0
    assert private.read_text() == SECRET
    assert (untrusted / "export" / "replay.mp4").read_bytes() == b"video"
    assert not [path for path in (untrusted / "export").iterdir() if path.is_symlink()]


# --------------------------------------------------------------------------------------------- unlimited size


def nested_merges(levels: int, each: int) -> str:
    """Return YAML in which every mapping merges ``each`` copies of the previous one."""
    lines = ["zzz:", "  - &m0 {k: 1}"]
    lines += [f"  - &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * each)}]}}" for n in range(1, levels)]
    return "\n".join([*lines, ""])


def replace_by_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def prepend(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text + path.read_text())


UNLIMITED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "merges": ("config.yaml", prepend(nested_merges(9, 10))),
    "wide merges": ("config.yaml", prepend(nested_merges(3, 3000))),
    "base-60 integer": ("config.yaml", prepend("zzz: 1" + ":1" * 400_000 + "\n")),
    "pipe": ("config.yaml", replace_by_pipe),
    "device": ("config.yaml", lambda path: link(path, Path("/dev/zero"))),
    "columns": ("evaluations.csv", prepend("c," * 20_000)),
}


@pytest.mark.parametrize("kind", UNLIMITED)
def test_files_of_unlimited_size_are_reported(rlher, make_run: Make, kind: str) -> None:
    path, damage = UNLIMITED[kind]
    folder = make_run("untrusted")
    damage(folder / path)
    with time_limit(SECONDS):
        done = rlher("compare", str(folder))
    assert done.code == 2
    assert path in done.err


@pytest.mark.parametrize(
    "words",
    [*((verb, "RUN", "model=last") for verb in ("evaluate", "enjoy", "export")), (*TRAIN, "init_from=RUN")],
    ids=lambda words: words[0],
)
def test_a_model_that_is_a_pipe_is_reported(rlher, untrusted: Path, words: tuple[str, ...]) -> None:
    path = untrusted / "last_model.zip"
    replace_by_pipe(path)
    with time_limit(3 * SECONDS):
        done = rlher(*(word.replace("RUN", str(untrusted)) for word in words))
    assert done.code == 2
    assert str(path) in done.err


@pytest.mark.parametrize(
    "damage", [replace_by_pipe, lambda path: link(path, Path("/dev/zero")), lambda path: os.truncate(path, 10**12)]
)
def test_readers_refuse_files_of_unlimited_size(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    file = tmp_path / "file"
    file.touch()
    damage(file)
    with time_limit(SECONDS):
        assert read_text_or_empty(file) == ""
        assert read_json_or_empty(file) == {}
        with pytest.raises(ValueError, match=r"regular file|more than"):
            read_yaml(file)
        with pytest.raises(ValueError, match=r"regular file|more than"):
            read_table(file)


# ------------------------------------------------------------------------------------------------- plots


def test_formulas_are_plotted_as_text(rlher, make_run: Make) -> None:
    names = [r"a$x^{2}_\frac{1}$", r"$\undefined{$", "$$", r"\$1$ $2"]
    for index, name in enumerate(names):
        strategy = {"goal_selection_strategy": name}
        rows = make_run(f"untrusted/{index}", env={"id": "x", "name": name}, her=strategy) / "evaluations.csv"
        rows.write_text(rows.read_text().replace("mean_reward", "a$b$_$"))
    assert rlher("plot", "--y", "a$b$_$", "--output", "a.svg,a.png").code == 0
    drawn = Path("a.svg").read_text()
    assert all(name in drawn for name in names)


@pytest.mark.parametrize("recipe", ["logs: elsewhere\n", "storage: sqlite:///elsewhere.db\n"])
@pytest.mark.parametrize("words", [("train", "-m", "seed=0,1"), ("optimize", "--n-trials", "1")])
def test_a_recipe_sets_no_place(rlher, tmp_path: Path, recipe: str, words: tuple[str, ...]) -> None:
    (tmp_path / "r.yaml").write_text(recipe)
    assert rlher(*words, "algo=dqn", "env=BitFlipping-v0", "recipe=r.yaml").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["r.yaml"]


def test_a_path_that_is_not_utf_8_is_reported(rlher) -> None:
    os.mkdir(b"f\xff")
    done = rlher("train", *TRAIN[1:], "logs=" + os.fsdecode(b"f\xff"))
    assert done.code == 2
    assert "UTF-8" in done.err


def test_no_job_writes_into_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.log")
    with time_limit(SECONDS), pytest.raises(UserError):
        require_safe_to_write(tmp_path / "job.log")


def test_messages_are_escaped_where_python_prints_them(make_run: Make) -> None:
    folder = make_run("a")
    (folder / "config.yaml").write_text('"\\e]0;pwned\\a": 1\nalgo: {name: dqn}\nenv: {id: x}\n')
    with pytest.raises(DamagedFile) as raised:
        read_config(folder)
    assert str(raised.value).isprintable()


def test_the_path_of_a_printed_command_is_no_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert display_path(tmp_path / "--trust-code") == tmp_path / "--trust-code"
    assert display_path(tmp_path / "a" / "-b") == Path("a/-b")
