"""The config of a run, ``config.yaml``: written in full and signed, read back and validated against the schema."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import ENV_SCHEMAS, EnvConfig
from rlher.config.key import to_object
from rlher.config.training import TrainConfig
from rlher.core.errors import DamagedFile, UserError, first_line
from rlher.core.files import write_text
from rlher.core.safe_read import read_yaml
from rlher.run import trust

NAME = "config.yaml"


def write_config(folder: Path, config: TrainConfig, working_folder: Path) -> None:
    """Replace ``config.yaml`` in a run folder, and sign it as the user's own, see :func:`rlher.run.trust.sign`."""
    write_text(folder / NAME, trust.sign(yaml.safe_dump(asdict(config), sort_keys=False), folder, working_folder))


def read_config(folder: Path) -> TrainConfig:
    """Return the config in a run folder; it may name code that is not trusted.

    :raises FileNotFoundError: there is none.
    :raises DamagedFile: it cannot be read or does not fit the schema.
    """
    path = folder / NAME
    try:
        values = read_yaml(path)
        if found := trust.interpolations(values):  # a run's config is written with all of them resolved
            raise ValueError(f"it contains the interpolation {found[0]!r}")
        if not isinstance(values, dict) or not {"algo", "env"} <= values.keys():
            raise ValueError("it has no sections algo and env")
        schema = TrainConfig(ALGORITHMS[values["algo"]["name"]].config(), _env_schema(values["env"]))
        return to_object(OmegaConf.merge(OmegaConf.structured(schema), values), TrainConfig)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OmegaConfBaseException, UserError) as error:
        raise DamagedFile(path, first_line(error)) from error


def _env_schema(values: dict[str, Any]) -> EnvConfig:
    """Return the first environment schema that has all of these keys."""
    fitting = (schema for schema in ENV_SCHEMAS.values() if set(values) <= {item.name for item in fields(schema)})
    return next(fitting, EnvConfig)()
