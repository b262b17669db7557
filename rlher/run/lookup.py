"""Find run folders by name, the newest run, the last unfinished run, and the pretrained agents."""

import os
import re
from pathlib import Path

from rlher.config.command_configs import ModelChoiceConfig
from rlher.config.key import changed_values, param_values, values_by_key
from rlher.config.training import RunConfig
from rlher.config.trust import require_trusted_code
from rlher.core.errors import UserError, did_you_mean
from rlher.run import run_folder
from rlher.run.result import Status
from rlher.run.run_folder import CONFIG_FILE, METADATA_FILE, MODEL_FILES, RunFolder

PRETRAINED_AGENTS = Path(__file__).parents[1] / "pretrained_agents"
"""Folder of the pretrained agents, by name: run folders with the weights of the policy alone."""


def open_run(run: str | None, logs: str, trust_code: bool = False) -> RunFolder:
    """Open a run folder.

    :param run: a folder, the name of an environment (for its newest run), or None for the newest run under ``logs``.
    :param trust_code: whether rlher may run code that the config names. Code of the user's own runs is always trusted.
    :raises UserError: there is no such run folder, or the config cannot be read.
    :raises DamagedFile: the config does not fit the schema.
    :raises UntrustedCode: the config names code that is not trusted.
    """
    folder = Path(run) if run else _newest(Path(logs))
    if run and not os.path.exists(run):  # rlher enjoy FetchReach-v4
        folder = _newest(Path(logs), run) or folder
    if folder is None:
        raise UserError(f"there is no run under {logs}/; train one with `rlher train`, or name a folder.")
    try:
        config = run_folder.read_config(folder)
    except FileNotFoundError:
        configs = sorted(folder.glob(f"*/{CONFIG_FILE}"), key=_modified)
        near = configs[-1].parent if configs else _newest(Path(logs))
        hint = f"; {near} is one" if near else ""
        raise UserError(f"there is no run folder {folder}, because it has no {CONFIG_FILE}{hint}.") from None
    require_trusted_code(folder / CONFIG_FILE, values_by_key(config), trust_code)
    return RunFolder(folder, config)


def find_run_and_model(config: ModelChoiceConfig, agent: str | None = None) -> tuple[RunFolder, str]:
    """Return the run folder and the model that the keys ``run`` and ``model`` name.

    :param agent: name of a pretrained agent, in place of ``run``.
    :return: the run folder, and the model as :meth:`RunFolder.resolve_model_name` returns it.
    :raises UserError: there is no such run, agent or model, or the config names code that is not trusted.
    """
    name = str(pretrained_agent_folder(agent)) if agent else config.run
    run = open_run(name, config.logs, config.trust_code)
    return run, run.resolve_model_name(config.model)


def newest_unfinished(logs: Path) -> Path | None:
    """Return the folder of the unfinished run that was started or resumed last, or None if all runs are finished."""
    unfinished = [folder for folder in _run_folders(logs) if not is_finished(folder)]
    return max(unfinished, key=lambda folder: _modified(folder / CONFIG_FILE), default=None)


def find_run_of_experiment(config: RunConfig) -> Path | None:
    """Return the folder of the run with the same experiment and seed, or None if there is no such run.

    Of several runs, return the finished run, or else the run that was started last.
    """
    values = param_values(config)
    defaults = param_values(config.defaults())

    def is_same(folder: Path) -> bool:
        recorded = run_folder.read_metadata(folder).get("experiment")
        return isinstance(recorded, dict) and not changed_values(recorded, values, defaults)

    folders = _run_folders(Path(config.logs), config.env.label, config.algo.label)
    same = [folder for folder in folders if is_same(folder)]
    return max(same, key=lambda folder: (is_finished(folder), _modified(folder / METADATA_FILE)), default=None)


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder is finished, including its final evaluation."""
    return run_folder.read_result(folder).get("status") == Status.FINISHED


def _newest(logs: Path, env: str | None = None) -> Path | None:
    """Return the folder of the run whose model was written last, or of the newest run if none has a model.

    :param env: name of the run's environment, or None for any.
    """
    folders = _run_folders(logs, env)
    models = [folder / name for folder in folders for name in MODEL_FILES.values() if (folder / name).exists()]
    files = models or [folder / CONFIG_FILE for folder in folders]
    return max(files, key=_modified).parent if files else None


def _run_folders(logs: Path, env: str | None = None, algo: str = "*") -> list[Path]:
    """Return the run folders ``<env>_<number>`` under ``logs``.

    :param env: name of the environment, or None for any.
    :param algo: glob pattern for the name of the algorithm. It saves time: a sweep looks for its runs once a second.
    """
    env_pattern = re.escape(run_folder.safe_name(env)) if env else ".*"
    folders = [config.parent for config in logs.glob(f"{algo}/*/{CONFIG_FILE}")]
    return [folder for folder in folders if re.fullmatch(env_pattern + r"_\d+", folder.name)]


def _modified(path: Path) -> float:
    """Return when a file was written, or 0 if another process has deleted the file."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


# ------------------------------------------------------------------------------------------------ pretrained agents


def pretrained_agent_names() -> list[str]:
    """Return the names of all pretrained agents, sorted."""
    return sorted(path.parent.name for path in PRETRAINED_AGENTS.glob(f"*/{MODEL_FILES['best']}"))


def pretrained_agent_folder(name: str) -> Path:
    """Return the folder of a pretrained agent. It is a run folder with only the weights of the policy.

    :raises UserError: there is no agent of that name.
    """
    known = pretrained_agent_names()
    if name not in known:
        hint = did_you_mean(name, known) or f"; the agents are {', '.join(known)}"
        raise UserError(f"there is no agent {name!r}{hint}.")
    return PRETRAINED_AGENTS / name
