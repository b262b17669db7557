"""Run folders from untrusted sources: hostile names, links out of the folder, and huge files.

Nothing in the folder is executed, no file outside it is copied into reports and exports, and none is changed.
"""

import ast
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlher.analysis import grouping, loading
from rlher.analysis.html import config_diff
from rlher.cli.main import main
from rlher.core.safe_read import links_outside, read_json, read_table, read_text, read_yaml
from rlher.evaluation.export.script import SourceWriter
from tests.conftest import Make
from tests.support import fuzzing

SECRET = "the private key"
SECONDS = 10
"""Time limit of one command."""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A private file outside the run folder."""
    file = tmp_path / "id_rsa"
    file.write_text(SECRET)
    return file


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# ------------------------------------------------------------------------------------------------ export


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with fuzzing.inside(folder):
        fuzzing.run_checked(lambda: main([*fuzzing.TRAIN, "tensorboard=false"]), "training")
    return folder / fuzzing.RUN


@pytest.fixture
def sent(trained: Path, tmp_path: Path) -> Path:
    """A run folder with a model, which a test may damage."""
    return shutil.copytree(trained, tmp_path / "sent")


def configure_env(folder: Path, **values: Any) -> None:
    file = folder / "config.yaml"
    config = yaml.safe_load(file.read_text())
    config["env"].update(values)
    file.write_text(yaml.safe_dump(config))


def names_called(script: str) -> set[str]:
    """Return every function that a script calls, and every module it imports."""
    nodes = [*ast.walk(ast.parse(script))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return imported | {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


NASTY = {
    "the end of the docstring": 'x"""\nimport os; os.system("touch hacked")\n"""',
    "quotes": "x'\"\\\n---\n```\n<script>hacked</script> `$name` {env} $",
    "no text": "\ud800\0\x1b[31m",
    "a long one": "x" * 50_000,
}


@pytest.mark.parametrize("nasty", NASTY)
def test_a_hostile_name_adds_no_calls_to_the_exported_script(rlher, sent: Path, nasty: str) -> None:
    assert rlher("export", str(sent), "--output", "plain").code == 0
    configure_env(sent, name=NASTY[nasty])
    done = rlher("export", str(sent), "--output", "export")
    assert done.code == 0, done.err
    script = Path("export/play.py").read_text()
    assert names_called(script) == names_called(Path("plain/play.py").read_text())
    assert max(map(len, script.splitlines())) < 500
    assert not Path("hacked").exists()


@pytest.mark.parametrize("nasty", NASTY)
def test_hostile_texts_add_no_markup_to_the_card(rlher, sent: Path, nasty: str) -> None:
    configure_env(sent, name=NASTY[nasty])
    (sent / "command.txt").write_text("rlher train\n```\n<script>hacked</script>\n````\n")
    meta = json.loads((sent / "meta.json").read_text())
    meta |= {"python": "3\n```\n<script>hacked</script>", "git": {"commit": "<a><b>`\n---"}}
    (sent / "meta.json").write_text(json.dumps(meta))
    assert rlher("export", str(sent), "--output", "export").code == 0
    _, front, body = Path("export/README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "stable-baselines3"
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", body, flags=re.DOTALL | re.MULTILINE)
    assert "<" not in outside
    assert "```" not in outside
    assert re.findall("^#+ .*", outside, re.MULTILINE)[1:] == ["## Results", "## Usage", "## Training"]


@pytest.mark.parametrize(
    "value",
    [*NASTY.values(), "is_success'] or hacked() or info['x", "é", "💥", {"a": 1}, {"class": 1}, {"a=hacked()": [None]}],
)
def test_values_written_as_source_evaluate_to_themselves(value: Any) -> None:
    def read(text: str) -> Any:
        return eval(text, {"__builtins__": {"dict": dict}})

    assert read(SourceWriter().value(value)) == value
    options = value if isinstance(value, dict) else {"key": value}
    assert read(f"dict({SourceWriter().keywords(options)})") == options


@pytest.mark.parametrize("module", ["os; hacked", "os\nhacked", "os as x, hacked", "class", "..", ""])
def test_an_invalid_module_name_is_refused(rlher, sent: Path, module: str) -> None:
    configure_env(sent, modules=[module])
    done = rlher("export", str(sent), "--output", "export")
    assert done.code == 2
    assert "env.modules names" in done.err
    assert "which is not a module" in done.err
    assert not Path("export").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("best", None), ("best", [1]), ("best", {"success_rate": "0.5"}), ("status", ["finished"])],
)
def test_an_invalid_result_is_measured_again(rlher, sent: Path, name: str, value: Any) -> None:
    result = json.loads((sent / "result.json").read_text()) | {name: value}
    (sent / "result.json").write_text(json.dumps(result))
    done = rlher("export", str(sent), "--output", "export")
    assert done.code == 0, done.err
    assert "evaluating" in done.err


@pytest.mark.parametrize("meta", [{"packages": []}, {"packages": {}}, {"git": "x"}, {"git": [1]}])
def test_invalid_versions_are_reported(rlher, sent: Path, meta: dict[str, Any]) -> None:
    found = json.loads((sent / "meta.json").read_text()) | meta
    (sent / "meta.json").write_text(json.dumps(found))
    done = rlher("export", str(sent), "--output", "export")
    assert done.code == 2
    assert "meta.json" in done.err


def test_an_export_folder_that_is_a_link_is_not_written_to(rlher, sent: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("mine")
    (sent / "export").symlink_to("../project")
    done = rlher("export", str(sent))
    assert done.code == 2
    assert "--output" in done.err
    assert [file.name for file in project.iterdir()] == ["README.md"]
    assert rlher("export", str(sent), "--output", str(sent / "export")).code == 0, "asked for by name"


def test_a_link_in_an_export_folder_is_replaced(rlher, sent: Path, private: Path) -> None:
    names = ("README.md", "play.py", "requirements.txt", "bit_flipping.py", "replay.mp4", "normalizer.npz")
    for name in (*names, "dqn-BitFlipping-v0.zip"):
        link(sent / "export" / name, private)
    (sent / "clips").mkdir(exist_ok=True)
    (sent / "clips" / "60.mp4").write_bytes(b"film")
    done = rlher("export", str(sent), "--checkpoint", "last")
    assert done.code == 0, done.err
    assert private.read_text() == SECRET
    assert (sent / "export" / "replay.mp4").read_bytes() == b"film"
    assert not [path for path in (sent / "export").iterdir() if path.is_symlink()]


@pytest.mark.parametrize("path", ["clips/60.mp4", "command.txt", "meta.json", "result.json"])
def test_an_export_contains_no_linked_files(rlher, sent: Path, private: Path, path: str) -> None:
    link(sent / path, private)
    rlher("export", str(sent), "--checkpoint", "last", "--output", "export")
    for file in Path("export").iterdir():
        assert SECRET.encode() not in file.read_bytes(), file
    assert not Path("export/replay.mp4").exists()


def test_a_linked_folder_of_clips_is_not_exported(rlher, sent: Path, tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "60.mp4").write_bytes(b"private")
    (sent / "clips").symlink_to(tmp_path / "films")
    done = rlher("export", str(sent), "--checkpoint", "last", "--output", "export")
    assert done.code == 0, done.err
    assert not Path("export/replay.mp4").exists()


# ---------------------------------------------------------------------------------- links out of a folder


FILM, PICTURE = b"\0\0\0\x18ftypmp42", b"\x89PNG"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("command.txt", SECRET.encode()),
        ("meta.json", json.dumps({"machine": SECRET}).encode()),
        ("config.yaml", f"{SECRET}: [".encode()),
        ("enjoy.mp4", FILM),
        ("enjoy.gif", b"GIF89a"),
        ("clips/100.mp4", FILM),
    ],
)
def test_a_report_of_a_run_contains_no_linked_files(
    rlher, make_run: Make, private: Path, path: str, content: bytes
) -> None:
    private.write_bytes(content)
    make_run("other")
    link(make_run("sent") / path, private)
    done = rlher("report", "logs")
    page = Path("logs/report.html").read_text()
    assert done.code == 0, done.err
    assert SECRET not in page + done.err
    assert "data:video" not in page
    assert "data:image" not in page


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("best.yaml", SECRET.encode()),
        ("command.txt", SECRET.encode()),
        ("verdict.json", json.dumps({"study": SECRET}).encode()),
        ("trials.csv", f"number,value\n0,{SECRET}\n".encode()),
        ("history.png", PICTURE),
    ],
)
def test_a_report_of_a_study_contains_no_linked_files(
    rlher, private: Path, tmp_path: Path, path: str, content: bytes
) -> None:
    private.write_bytes(content)
    study = tmp_path / "study"
    study.mkdir()
    (study / "journal.log").touch()
    (study / path).write_bytes(content)
    assert rlher("report", "study").code == 0
    own = Path("logs/report.html").read_text()
    assert SECRET in own or "data:image" in own, "otherwise the assertions below would prove nothing"
    link(study / path, private)
    assert rlher("report", "study").code == 0
    page = Path("logs/report.html").read_text()
    assert SECRET not in page
    assert "data:image" not in page


def test_linked_reruns_are_not_read(rlher, make_run: Make, tmp_path: Path) -> None:
    (make_run("mine") / "command.txt").write_text(SECRET)
    study = tmp_path / "study"
    study.mkdir()
    (study / "journal.log").touch()
    (study / "reruns").symlink_to(tmp_path / "logs")
    assert rlher("report", "study", "--output", "page.html").code == 0
    assert SECRET not in Path("page.html").read_text()


def test_the_whole_folder_of_runs_may_be_a_link(rlher, make_run: Make, tmp_path: Path) -> None:
    folder = make_run("mine")
    (folder / "command.txt").write_text("what was typed")
    (folder / "enjoy.gif").write_bytes(b"GIF89a")
    (tmp_path / "logs").rename(tmp_path / "scratch")
    (tmp_path / "logs").symlink_to(tmp_path / "scratch")
    assert rlher("report").code == 0
    page = Path("logs/report.html").read_text()
    assert "what was typed" in page
    assert "data:image/gif" in page


@pytest.mark.parametrize(("target", "out"), [("beside", False), ("../x", True), ("/dev/zero", True), ("link", False)])
def test_links_outside_a_folder_are_recognised(tmp_path: Path, target: str, out: bool) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(target)
    assert links_outside(tmp_path / "folder" / "link") == out


# --------------------------------------------------------------------------------------------- huge and endless files


def merges(levels: int, each: int) -> str:
    """Return lines that merge mappings of mappings of mappings."""
    lines = ["zzz:", "  - &m0 {k: 1}"]
    lines += [f"  - &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * each)}]}}" for n in range(1, levels)]
    return "\n".join([*lines, ""])


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def prepend(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text + path.read_text())


ENDLESS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "merges": ("config.yaml", prepend(merges(9, 10)), "it merges too many values"),
    "wide merges": ("config.yaml", prepend(merges(3, 3000)), "it merges too many values"),
    "sixties": ("config.yaml", prepend("zzz: 1" + ":1" * 400_000 + "\n"), "more than 100,000"),
    "a pipe": ("config.yaml", pipe, "not a regular file"),
    "a device": ("config.yaml", lambda path: link(path, Path("/dev/zero")), ""),
    "columns": ("evaluations.csv", prepend("c," * 20_000), "it has 20,005 columns"),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("verb", ["compare", "plot", "evaluate"])
def test_huge_and_endless_files_are_reported(rlher, make_run: Make, verb: str, kind: str) -> None:
    path, spoil, message = ENDLESS[kind]
    if verb == "evaluate" and path == "evaluations.csv":
        pytest.skip("evaluate does not read it")
    folder = make_run("sent")
    spoil(folder / path)
    with fuzzing.limited(SECONDS):
        done = rlher(verb, str(folder))
    assert done.code == 2
    assert message in done.err


def test_merge_keys_are_resolved(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("base: &base {a: 1, b: 2}\nmine: {<<: *base, b: 3}\n")
    assert read_yaml(file)["mine"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    "spoil", [pipe, lambda path: link(path, Path("/dev/zero")), lambda path: os.truncate(path, 10**12)]
)
def test_pipes_devices_and_huge_files_are_not_read(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file = tmp_path / "file"
    file.touch()
    spoil(file)
    with fuzzing.limited(SECONDS):
        assert read_text(file) == ""
        assert read_json(file) == {}
        with pytest.raises(ValueError, match=r"not a regular file|more than"):
            read_yaml(file)
        with pytest.raises(ValueError, match=r"not a regular file|more than"):
            read_table(file)


def test_cells_beyond_the_header_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("timesteps,success_rate\n" + ("1,0.5" + ",7" * 20_000 + "\n") * 3)
    with fuzzing.limited(SECONDS):
        assert read_table(file).to_numpy().tolist() == [[1, 0.5]] * 3


def test_thousands_of_keys_are_compared_in_time(make_run: Make) -> None:
    (run,) = loading.read_runs([str(make_run("sent"))], "logs")[0]
    (run.folder / "meta.json").write_text(json.dumps({f"a{n}": {"b": n, "": 1} for n in range(20_000)}))
    with fuzzing.limited(SECONDS):
        assert len(config_diff.versions([grouping.Group("Some-v0", "", [run])])) == 40_000


@pytest.mark.parametrize("steps", ["1e308", "-1e308", "9" * 300])
def test_impossible_timesteps_are_reported(rlher, make_run: Make, steps: str) -> None:
    folder = make_run("sent")
    (folder / "evaluations.csv").write_text(f"timesteps,success_rate\n{steps},0.5\n")
    done = rlher("compare")
    assert done.code == 2
    assert "evaluations.csv has timesteps" in done.err
    assert len(done.err) < 300


# ------------------------------------------------------------------------------------------------- on pictures


FORMULAS = (r"a$x^{2}_\frac{1}$", r"$\undefined{$", "$$", r"\$1$ $2")


@pytest.mark.parametrize("name", FORMULAS)
def test_dollar_signs_are_drawn_literally(rlher, make_run: Make, name: str) -> None:
    for seed in range(2):
        strategy = {"goal_selection_strategy": name}
        rows = make_run(f"sent/{seed}", seed, env={"id": "x", "name": name}, her=strategy) / "evaluations.csv"
        rows.write_text(rows.read_text().replace("mean_reward", "a$b$_$"))
    done = rlher("plot", "--y", "a$b$_$", "--output", "a.svg,a.png")
    assert done.code == 0, done.err
    assert name in Path("a.svg").read_text()


def test_long_names_are_truncated(rlher, make_run: Make) -> None:
    long = "x" * 40_000
    make_run("sent", env={"id": "x", "name": long}, her={"goal_selection_strategy": long})
    with fuzzing.limited(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("error")
        done = rlher("plot", "--output", "a.png")
    assert done.code == 0, done.err
