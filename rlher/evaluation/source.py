"""Which agent `rlher evaluate` and `rlher enjoy` are for: one of a run's, or a model file from elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlher.config.environment import EnvConfig
from rlher.config.saved_model import ReplayConfig
from rlher.core.errors import UserError
from rlher.evaluation import agent, sb3_import
from rlher.evaluation.agent import Agent
from rlher.runs import lookup
from rlher.runs.run_folder import model_name


@dataclass(frozen=True)
class Source:
    """An agent that is there to be loaded.

    :param name: what to call it in a line of its own.
    :param folder: where a film of it goes.
    :param keys: what it is, for JSON.
    :param env: its environment; of a zip from elsewhere as typed, so ask the loaded agent what it can.
    :param load: from a render mode to the agent.
    """

    name: str
    folder: Path
    keys: dict[str, str]
    env: EnvConfig
    load: Callable[[str | None], Agent]


def find_source(config: ReplayConfig, order: tuple[str, ...]) -> Source:
    """Find the agent that a person means.

    :param order: of a run's models, the first of these there is, where none is named.
    :raises UserError: no such run, model or checkpoint, or a model file from elsewhere that is not trusted.
    """
    if config.run and config.run.endswith(".zip") and not Path(config.run).is_dir():
        path = Path(config.run)
        env = sb3_import.require_trust(path, config)
        return Source(
            str(path),
            path.parent,
            {"model": str(path)},
            env,
            lambda mode: sb3_import.load_agent(path, env, config, mode),
        )
    run = lookup.find(config.run, config.logs)
    if config.env is not None:
        raise UserError(f"{run.folder} has an environment of its own, {run.config.env.id}: leave env= out.")
    which = run.choose_model(config.checkpoint, order)
    return Source(
        f"{run.folder}, {model_name(which)}",
        run.folder,
        {"run": str(run.folder), "checkpoint": which},
        run.config.env,
        lambda mode: agent.load_agent(run, which, config.device, config.deterministic, mode),
    )
