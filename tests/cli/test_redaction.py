"""Passwords are hidden in everything that is printed or written."""

import shlex
from pathlib import Path

import pytest

from rlher.core import errors
from rlher.core.console import quote_command, redact
from rlher.training import loggers as services
from tests.conftest import TINY

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "total_timesteps=60")

SECRETS = [
    "postgresql://u:SEC RET@h/db",
    "postgresql://u:SEC@RET/SECRET@h/db",
    "postgresql:u:SECRET@h/db",
    "u:SEC RET@h/db",
    "http://u:SECRET@h:80/a",
    "sqlite:///s.db?sslpassword=SECRETX&password=SEC RETY",
    "sqlite:///s.db?password=SEC'RET&x=1",
    "sqlite:///s.db?x=1;passwd=SECRET",
    "sqlite:///s.db?pass%77or%44=SECRET",
    "mssql:///?odbc_connect=UID%3Du%3BPWD%3DSECRET",
]


@pytest.mark.parametrize("word", SECRETS)
def test_recorded_command_lines_have_no_passwords(word: str) -> None:
    recorded = quote_command(["rlher", "optimize", "--storage", word, "seed=3"])
    assert not [part for part in ("SEC", "RET") if part in recorded]
    *before, redacted, after = shlex.split(recorded)
    assert (before, after) == (["rlher", "optimize", "--storage"], "seed=3")
    assert "***" in redacted
    assert redact(word) == redact(redacted) == redacted


def test_text_without_passwords_is_unchanged() -> None:
    text = "no address, such as sqlite:///study.db or postgresql://host:5432/database."
    assert redact(text) == text


ARGUMENTS = [
    # arguments, text that the message must contain
    (("--storage", "user:SECRET@h/db"), "storage"),
    (("--storage", "postgresql://user:SECRET@127.0.0.1:notaport/db"), "storage"),
    (("--storage", "sqlite:////nowhere/s.db?bogus=SECRET"), "sqlite:////nowhere/s.db?***: "),
    (("storage.x=postgresql://user:SEC RET@h/db",), "'storage.x'"),
    (("postgresql://user:SEC RET@h/db",), "postgresql://***@h/db"),
]


@pytest.mark.parametrize(("arguments", "named"), ARGUMENTS, ids=[" ".join(each) for each, _ in ARGUMENTS])
def test_error_messages_hide_the_password(rlher, arguments: tuple[str, ...], named: str) -> None:
    done = rlher("optimize", *BITS, *arguments)
    assert done.code == 2
    assert named in done.err
    assert not [part for part in ("SEC", "RET") if part in done.out + done.err]


def test_printed_configs_have_no_password(rlher) -> None:
    done = rlher("optimize", "storage='postgresql://user:SEC RET@host/db?sslpassword=SEC'", "--cfg", "job")
    assert done.code == 0, done.err
    assert "postgresql://***@host/db?***" in done.out
    assert "n_trials: 100" in done.out
    assert not [part for part in ("SEC", "RET") if part in done.out + done.err]


@pytest.mark.slow
def test_files_of_a_study_have_no_password(rlher, tmp_path: Path) -> None:
    address = "sqlite:///s.db?sslpassword=SECRETX&password=SEC RETY"
    search = ("--n-trials", "1", "space=her", "rerun_best=1", "rerun_seeds=2", "n_seeds=1", "--workers", "1")
    done = rlher("optimize", *BITS, *search, "--no-progress", "--storage", address)
    assert done.code == 0, done.err
    commands = [path.read_text() for path in tmp_path.rglob("command.txt")]
    assert len(commands) >= 2
    assert all("sqlite:///s.db?***" in command for command in commands)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"SEC" in path.read_bytes() or b"RETY" in path.read_bytes()]


def fail(*arguments: object) -> None:
    raise ConnectionError("API request to http://user:SEC\nRET@127.0.0.1:1/api failed with timeout")


def test_errors_of_a_logging_service_hide_the_password(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: name)
    monkeypatch.setitem(services.LOGGERS, "wandb", f"{__name__}:fail")
    done = rlher("train", *BITS, "logger=wandb")
    assert done.code == 2
    assert "***@127.0.0.1:1/api failed with timeout" in done.err
    assert not [part for part in ("SEC", "RET") if part in done.out + done.err]
