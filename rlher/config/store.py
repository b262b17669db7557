"""Registration of the schemas in Hydra's ConfigStore."""

import functools

from hydra.core.config_store import ConfigStore

from rlher.config.algorithms import ALGORITHMS
from rlher.config.check import CheckConfig
from rlher.config.curves import CompareConfig, PlotConfig, ReportConfig
from rlher.config.environment import ENV_SCHEMAS
from rlher.config.saved_model import EnjoyConfig, EvaluateConfig, ExportConfig
from rlher.config.training import TrainConfig
from rlher.config.tuning import OptimizeConfig

VERB_SCHEMAS: dict[str, type] = {
    "train": TrainConfig,
    "optimize": OptimizeConfig,
    "evaluate": EvaluateConfig,
    "enjoy": EnjoyConfig,
    "export": ExportConfig,
    "check": CheckConfig,
    "plot": PlotConfig,
    "compare": CompareConfig,
    "report": ReportConfig,
}


@functools.cache
def register() -> None:
    """Store the schemas where the files of ``conf/`` name them: ``/schema/<verb>``, ``/schema/algo/<name>``, ...

    Once a process, which takes a tenth of a second.
    """
    store = ConfigStore.instance().store
    for name, verb in VERB_SCHEMAS.items():
        store(group="schema", name=name, node=verb)
    for name, algorithm in ALGORITHMS.items():
        store(group="schema/algo", name=name, node=algorithm.config)
    for name, env in ENV_SCHEMAS.items():
        store(group="schema/env", name=name, node=env)
