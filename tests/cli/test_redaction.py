"""A password in `storage=` is refused, because the command line is recorded."""

import pytest

from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError
from tests.conftest import TINY

SECRETS = [
    "postgresql://u:SECRET@h/db",
    "postgresql://u:SEC@RET/x@h/db",
    "postgresql://u:SECRET@h:notaport/db",
    "u:SECRET@h/db",
    "sqlite:///s.db?sslpassword=SECRET",
    "sqlite:///s.db?pass%77or%44=SECRET",
]


@pytest.mark.parametrize("address", SECRETS)
def test_a_password_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UserError, match="storage=") as refused:
        OptimizeConfig(storage=address).validate()
    assert not [part for part in ("SEC", "RET") if part in str(refused.value)]


@pytest.mark.parametrize("address", ["sqlite:///study.db", "postgresql://me@host:5432/database?sslmode=require"])
def test_an_address_without_a_password_is_taken(address: str) -> None:
    OptimizeConfig(storage=address).validate()


def test_nothing_is_written_for_a_refused_address(rlher, tmp_path) -> None:
    done = rlher("optimize", "algo=dqn", "env=BitFlipping-v0", *TINY, "--storage", "postgresql://u:SECRET@h/db")
    assert done.code == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
