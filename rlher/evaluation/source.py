"""Find the agent for `rlher evaluate`, `enjoy` and `collect`: a model of a run, or an SB3 zip."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rlher.algos.factory import validate_device
from rlher.config.commands import ReplayConfig
from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError
from rlher.core.files import relative
from rlher.evaluation import agent, sb3_import
from rlher.evaluation.agent import Agent
from rlher.runs import lookup


@dataclass(frozen=True)
class Source:
    """An agent that can be loaded.

    :param name: name for printing.
    :param folder: folder for its video.
    :param keys: keys that identify it in JSON output.
    :param env: config of its environment; for an SB3 zip as typed, without the defaults of the loaded agent.
    :param load: loads the agent with a render mode.
    """

    name: str
    folder: Path
    keys: dict[str, str]
    env: EnvConfig
    load: Callable[[str | None], Agent]


def find_source(config: ReplayConfig) -> Source:
    """Return the agent that ``run=`` and ``checkpoint=``, or ``agent=``, name.

    :raises UserError: there is no such run, model or checkpoint, or an SB3 zip is not trusted.
    """
    validate_device(config.device)
    if config.run and config.run.endswith(".zip") and not Path(config.run).is_dir():
        path = Path(config.run).absolute()  # building the environment may change the current folder
        folder = lookup.folder_of_model(path)
        if folder is None:
            return _sb3_source(path, config)
        config = replace(config, run=str(relative(folder)), checkpoint=path.stem.removesuffix("_model"))
    if config.agent and config.run:
        raise UserError(f"run={config.run} and agent={config.agent} name two agents; give one of them.")
    name = str(lookup.agent_folder(config.agent)) if config.agent else config.run
    run = lookup.find(name, config.logs, config.trust_code)
    if config.env is not None:
        raise UserError(
            f"env={config.env.id} cannot replace the environment of {run}, {run.config.env.id}; leave env= out."
        )
    which = run.choose_model(config.checkpoint)
    return Source(
        f"{config.agent or run}, {agent.model_name(run, which)}",
        Path.cwd() if config.agent else run.folder,
        {"agent": config.agent} if config.agent else {"run": str(run), "checkpoint": which},
        run.config.env,
        lambda mode: agent.load_agent(run, which, config.device, config.deterministic, mode),
    )


def _sb3_source(path: Path, config: ReplayConfig) -> Source:
    env = sb3_import.require_trust(path, config)
    name = str(config.run)
    return Source(
        name, path.parent, {"model": name}, env, lambda mode: sb3_import.load_sb3_zip(path, env, config, mode)
    )
