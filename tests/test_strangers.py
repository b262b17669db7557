"""A folder that a stranger sent: it names what it likes, links where it likes, and is as large as it likes.

What is read from it stays data, nothing outside it is read into what one sends on, and nothing outside it is changed.
"""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from rlher import curves
from rlher.files import leads_out, read_json, read_text, read_yaml
from rlher.page import contrast
from tests import fuzzing
from tests.conftest import Make

SECRET = "the private key"
SECONDS = 10
"""What nobody waits for."""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A file beside the folder, which is nobody's business."""
    file = tmp_path / "id_rsa"
    file.write_text(SECRET)
    return file


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# ---------------------------------------------------------------------------------- what is read from elsewhere


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
def test_a_report_of_a_run_holds_nothing_from_elsewhere(
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
def test_a_report_of_a_study_holds_nothing_from_elsewhere(
    rlher, private: Path, tmp_path: Path, path: str, content: bytes
) -> None:
    private.write_bytes(content)
    study = tmp_path / "study"
    study.mkdir()
    (study / "journal.log").touch()
    (study / path).write_bytes(content)
    assert rlher("report", "study").code == 0
    own = Path("logs/report.html").read_text()
    assert SECRET in own or "data:image" in own, "else nothing is shown by what follows"
    link(study / path, private)
    assert rlher("report", "study").code == 0
    page = Path("logs/report.html").read_text()
    assert SECRET not in page
    assert "data:image" not in page


def test_runs_from_elsewhere_are_no_reruns(rlher, make_run: Make, tmp_path: Path) -> None:
    (make_run("mine") / "command.txt").write_text(SECRET)
    study = tmp_path / "study"
    study.mkdir()
    (study / "journal.log").touch()
    (study / "reruns").symlink_to(tmp_path / "logs")
    assert rlher("report", "study", "--output", "page.html").code == 0
    assert SECRET not in Path("page.html").read_text()


def test_a_folder_may_lie_elsewhere_as_a_whole(rlher, make_run: Make, tmp_path: Path) -> None:
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
def test_a_link_leads_out_or_not(tmp_path: Path, target: str, out: bool) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(target)
    assert leads_out(tmp_path / "folder" / "link") == out


# --------------------------------------------------------------------------------------------- what never ends


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
    "a pipe": ("config.yaml", pipe, "it is no file, but a folder, a pipe or a device"),
    "a device": ("config.yaml", lambda path: link(path, Path("/dev/zero")), ""),
    "columns": ("evaluations.csv", prepend("c," * 20_000), "it has 20,005 columns"),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("verb", ["compare", "plot", "evaluate"])
def test_what_never_ends_is_told(rlher, make_run: Make, verb: str, kind: str) -> None:
    path, spoil, told = ENDLESS[kind]
    if verb == "evaluate" and path == "evaluations.csv":
        pytest.skip("it reads none")
    folder = make_run("sent")
    spoil(folder / path)
    with fuzzing.limited(SECONDS):
        done = rlher(verb, str(folder))
    assert done.code == 2
    assert told in done.err


def test_a_few_merges_are_what_they_stand_for(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("base: &base {a: 1, b: 2}\nmine: {<<: *base, b: 3}\n")
    assert read_yaml(file)["mine"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    "spoil", [pipe, lambda path: link(path, Path("/dev/zero")), lambda path: os.truncate(path, 10**12)]
)
def test_no_text_is_read_without_end(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file = tmp_path / "file"
    file.touch()
    spoil(file)
    with fuzzing.limited(SECONDS):
        assert read_text(file) == ""
        assert read_json(file) == {}
        with pytest.raises(ValueError, match=r"no file|more than"):
            read_yaml(file)
        with pytest.raises(ValueError, match=r"no file|more than"):
            curves.read_table(file)


def test_rows_longer_than_their_header_are_cut(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("timesteps,success_rate\n" + ("1,0.5" + ",7" * 20_000 + "\n") * 3)
    with fuzzing.limited(SECONDS):
        assert curves.read_table(file).to_numpy().tolist() == [[1, 0.5]] * 3


def test_thousands_of_keys_are_told_apart_at_once(make_run: Make) -> None:
    (curve,) = curves.read([str(make_run("sent"))], "logs")[0]
    (curve.folder / "meta.json").write_text(json.dumps({f"a{n}": {"b": n, "": 1} for n in range(20_000)}))
    with fuzzing.limited(SECONDS):
        assert len(contrast.environment([curves.Group("Some-v0", "", [curve])])) == 40_000


@pytest.mark.parametrize("steps", ["1e308", "-1e308", "9" * 300])
def test_steps_that_no_run_has_are_told(rlher, make_run: Make, steps: str) -> None:
    folder = make_run("sent")
    (folder / "evaluations.csv").write_text(f"timesteps,success_rate\n{steps},0.5\n")
    done = rlher("compare")
    assert done.code == 2
    assert "numbers of steps that no run can have" in done.err
    assert len(done.err) < 300


# ------------------------------------------------------------------------------------------------- on pictures


FORMULAS = (r"a$x^{2}_\frac{1}$", r"$\undefined{$", "$$", r"\$1$ $2")


@pytest.mark.parametrize("name", FORMULAS)
def test_what_looks_like_a_formula_is_drawn_as_it_is(rlher, make_run: Make, name: str) -> None:
    for seed in range(2):
        strategy = {"goal_selection_strategy": name}
        rows = make_run(f"sent/{seed}", seed, env={"id": "x", "name": name}, her=strategy) / "evaluations.csv"
        rows.write_text(rows.read_text().replace("mean_reward", "a$b$_$"))
    done = rlher("plot", "--y", "a$b$_$", "--output", "a.svg,a.png")
    assert done.code == 0, done.err
    assert name in Path("a.svg").read_text()


def test_long_names_are_cut(rlher, make_run: Make) -> None:
    long = "x" * 40_000
    make_run("sent", env={"id": "x", "name": long}, her={"goal_selection_strategy": long})
    with fuzzing.limited(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("error")
        done = rlher("plot", "--output", "a.png")
    assert done.code == 0, done.err
