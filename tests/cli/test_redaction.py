"""The password of `storage=` is hidden in everything that is printed or written."""

import shlex
from pathlib import Path

import pytest

from rlher.cli.flags import parse
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


@pytest.mark.parametrize("address", SECRETS)
@pytest.mark.parametrize("key", ["--storage ", "--storage=", "storage=", "+storage="])
def test_recorded_command_lines_have_no_passwords(address: str, key: str) -> None:
    flag, blank, _ = key.partition(" ")
    words = [flag, address] if blank else [f"{key}{address}"]
    recorded = str(parse("optimize", [*words, "seed=3"]))
    assert not [part for part in ("SEC", "RET") if part in recorded]
    assert "***" in recorded
    assert "seed=3" in shlex.split(recorded)


def test_an_address_without_a_password_is_recorded() -> None:
    for address in ("sqlite:///study.db", "postgresql://me@host:5432/database"):
        assert shlex.split(str(parse("optimize", ["--storage", address])))[-1].strip("'").endswith(address)


ARGUMENTS = [
    # arguments, text that the message must contain
    (("--storage", "user:SECRET@h/db"), "storage"),
    (("--storage", "postgresql://user:SEC@RET/x@127.0.0.1:1/db"), "storage"),
    (("--storage", "postgresql://user:SECRET@127.0.0.1:notaport/db"), "storage"),
    (("--storage", "sqlite:////nowhere/s.db?bogus=SECRET"), "sqlite:////nowhere/s.db?***: "),
    (("storage.x=postgresql://user:SEC RET@h/db",), "'storage.x'"),
    (("storage=['postgresql://user:SEC RET@h/db']",), "storage"),
    (("storage=postgresql://user:SEC,RET@127.0.0.1:1/db",), "user:***@127.0.0.1:1/db"),
    (("--storage", "postgresql://user:SEC@127.0.0.1:1/db?password=RET"), "user:***@127.0.0.1:1/db?***"),
    (("postgresql://user:SEC RET@h/db",), "storage="),
    (("postgresql://user:SEC=RET@h/db",), "storage="),
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
    assert "postgresql://user:***@host/db?***" in done.out
    assert "n_trials: 100" in done.out
    assert not [part for part in ("SEC", "RET") if part in done.out + done.err]


@pytest.mark.slow
def test_files_of_a_study_have_no_password(rlher, tmp_path: Path) -> None:
    address = "sqlite:///s.db?sslpassword=SECRETX&password=SEC RETY"
    search = ("--n-trials", "1", "space=her", "rerun_best=1", "rerun_seeds=2", "n_seeds=1", "--workers", "1")
    assert rlher("optimize", *BITS, *search, "--no-progress", "--storage", address).code == 0
    commands = [path.read_text() for path in tmp_path.rglob("command.txt")]
    assert len(commands) >= 2
    assert all("sqlite:///s.db?***" in command for command in commands)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"SEC" in path.read_bytes() or b"RETY" in path.read_bytes()]
