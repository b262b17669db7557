"""Config keys of `rlher check`."""

from dataclasses import dataclass, field

from rlher.config.environment import EnvConfig
from rlher.config.key import key


@dataclass
class CheckConfig:
    """`rlher check`."""

    env: EnvConfig = field(default_factory=EnvConfig, metadata={"text": "environment"})
    seed: int = key(0, "seed of the episodes played", low=0)
    json: bool = key(False, "print the findings as JSON on stdout")
