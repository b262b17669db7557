"""Control characters from files and arguments are printed escaped."""

from pathlib import Path

import pytest

import rlher
from rlher.core.console import escape_control, warn
from tests.conftest import TINY, Make

TITLE = "\x1b]0;PWN\x07\x1b[31m"
BIDI = "\u202e\u2066"
MALICIOUS_NAME = f"Malicious{TITLE}\x9b31m{BIDI}\nrlher: all is well\r\x7f-v0"


def control_characters(text: str) -> str:
    """Return the control characters of a text, except newlines."""
    return "".join(character for character in text if not character.isprintable() and character != "\n")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (TITLE, r"\x1b]0;PWN\x07\x1b[31m"),
        (BIDI, r"\u202e\u2066"),
        ("\udcff", r"\udcff"),
        ("50 % → Übung, 目標 …", "50 % → Übung, 目標 …"),
    ],
)
def test_control_characters_are_escaped(text: str, escaped: str, capsys: pytest.CaptureFixture) -> None:
    assert escape_control(text) == escaped
    warn(text)
    assert capsys.readouterr().err == f"rlher: {escaped}\n"


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_compare_escapes_texts_of_a_run(rlher, make_run: Make, form: str) -> None:
    for seed in range(3):
        make_run(f"sac/three_{seed}", seed, env={"id": MALICIOUS_NAME})
    make_run("sac/one", algo={"activation": MALICIOUS_NAME}, env={"id": "Some-v0", "name": MALICIOUS_NAME})
    done = rlher("compare", "--by", "algo.activation", "--format", form)
    assert done.code == 0, done.err
    assert "PWN" in done.out
    assert "PWN" in done.err
    assert not control_characters(done.out + done.err)
    assert not [line for line in (done.out + done.err).splitlines() if line.startswith("rlher: all is well")]


def test_tables_and_runs_in_python_have_no_control_characters(make_run: Make) -> None:
    folder = make_run("sac/one", env={"id": "Some-v0", "name": MALICIOUS_NAME})
    (folder / "best_model.zip").touch()
    for shown in (repr(rlher.load(folder)), *rlher.compare(folder)[["env", "group"]].iloc[0]):
        assert not control_characters(shown)


def test_the_line_read_as_is_escaped(rlher) -> None:
    assert not control_characters(rlher("--algo", "sac", "--env", MALICIOUS_NAME, "-n", "10").err)


def test_train_evaluate_and_export_escape_names_of_folders(rlher, tmp_path: Path) -> None:
    logs = f"logs{MALICIOUS_NAME}"
    bits = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null")
    done = rlher("train", *bits, *TINY, "total_timesteps=40", "eval.freq=40", "--logs", logs)
    assert done.code == 0, done.err
    evaluated = rlher("evaluate", str(next(tmp_path.glob("*/dqn/*"))), "--episodes", "1")
    assert evaluated.code == 0, evaluated.err
    exported = rlher("export", str(next(tmp_path.glob("*/dqn/*"))))
    assert exported.code == 0, exported.err
    for printed in (done.out, done.err, evaluated.err, exported.out, exported.err):
        assert "PWN" in printed
        assert not control_characters(printed)


@pytest.mark.parametrize(
    "command", [("train", f"env='{MALICIOUS_NAME}'"), ("evaluate", MALICIOUS_NAME), (MALICIOUS_NAME,)]
)
def test_error_messages_are_escaped(rlher, command: tuple[str, ...]) -> None:
    done = rlher(*command)
    assert done.code == 2
    assert "PWN" in done.err
    assert not control_characters(done.err)
    assert len(done.err.splitlines()) == 1
