"""Registration of the config dataclasses in Hydra's ConfigStore."""

import functools

from hydra.core.config_store import ConfigStore

from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import ENV_SCHEMAS


def register(command: str, schema: type) -> None:
    """Store the schema of a command as ``/schema/<command>``, next to those of algorithms and environments."""
    _register_groups()
    ConfigStore.instance().store(group="schema", name=command, node=schema)


@functools.cache  # takes a tenth of a second
def _register_groups() -> None:
    store = ConfigStore.instance().store
    for name, algorithm in ALGORITHMS.items():
        store(group="schema/algo", name=name, node=algorithm.config)
    for name, env in ENV_SCHEMAS.items():
        store(group="schema/env", name=name, node=env)
