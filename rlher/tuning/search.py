"""`rlher optimize`: search for better hyperparameters and test whether the best trials beat the baseline."""

import re
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection

from rlher.config.training import TrainConfig
from rlher.config.tuning import OptimizeConfig, train_config
from rlher.core.console import redact, warn
from rlher.core.errors import EnvironmentFault, UserError, require_package
from rlher.core.nested import flatten
from rlher.core.signals import INTERRUPTED, interrupt_on_stop_signals
from rlher.training.setup import prepare
from rlher.tuning import recipe, search_space
from rlher.tuning.foreign_trials import require_own_trials
from rlher.tuning.launchers import Launcher, count_machines, make_launcher
from rlher.tuning.objective import RERUN_SPACE, RerunObjective, SearchObjective
from rlher.tuning.outputs import write_results
from rlher.tuning.significance import compare_candidates, completed_trials, rerun_parameters, select_candidates
from rlher.tuning.study import counted_trials, open_study, requeue
from rlher.tuning.study_progress import StudyProgress, failure_reason
from rlher.tuning.study_storage import open_storage
from rlher.tuning.supervisor import supervise
from rlher.tuning.worker import WorkerSpec

OUTSIDE_RECIPE = ("demos.path", "init_from", "dry_run")
"""Keys that a recipe leaves out, although trials depend on their values."""


def optimize(config: OptimizeConfig) -> int:
    """Search, train the best trials and the baseline again on fresh seeds, compare them and write the results.

    The same command resumes a study; another command with the same storage and study name joins it.

    :return: exit code: 0, or 130 after Ctrl-C.
    :raises UserError: the config is invalid; no trial has started.
    :raises EnvironmentFault: every trial failed, or workers die repeatedly.
    """
    _validate(config)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder = Path(config.logs).absolute() / "optuna" / (config.study_name or _default_name(config))
    space = search_space.load(config.search_space, train_config(config))
    with prepare(train_config(config)) as setup:  # raises here, before the first trial, what every trial would raise
        checked = replace(config, env=setup.config.env)
        _require_evaluation(setup.config)
    launch = _make_launcher(config)
    storage = open_storage(config.storage, folder, config.heartbeat, requeue)
    study, created = _open_search(storage, folder.name, config, space)
    if config.sampler == "cmaes" and not created and not config.trust_study:
        raise UserError(
            f"the study {folder.name!r} exists, and sampler=cmaes loads the state of its search from {_where(config)} "
            "with pickle, which runs any code in it; add --trust-study if all who can write there are trusted, or use "
            "sampler=tpe."
        )
    require_own_trials(study, space)
    try:
        with interrupt_on_stop_signals():
            spec = _worker_spec(study, checked, space, folder, created)
            _run(study, spec, launch, "search")
            require_own_trials(study, space)
            _require_completed_trial(study)
            candidates = select_candidates(study, config)
            reruns = _open_reruns(storage, folder.name, candidates, config)
            _run(reruns, _rerun_spec(spec, reruns, candidates), launch, "re-runs of the best trials")
            require_own_trials(reruns, RERUN_SPACE)
    except KeyboardInterrupt:
        done = sum(trial.state.is_finished() for trial in counted_trials(study))
        warn(f"stopped after {done} of {config.n_trials} trials; run the same command again to resume.")
        return INTERRUPTED
    write_results(study, compare_candidates(reruns, candidates, config), candidates, config, folder)
    return 0


def _validate(config: OptimizeConfig) -> None:
    """Raise UserError for keys that exclude each other, a missing package or an unusable study name."""
    if config.sampler == "cmaes" and config.objective == "multi":
        raise UserError("sampler=cmaes has one objective only, but objective=multi has two; use sampler=tpe.")
    if config.sampler == "cmaes":
        require_package("sampler=cmaes", "cmaes")
    if config.study_name is not None and not re.fullmatch(r"\w[\w.-]*", config.study_name):
        raise UserError(
            f"study_name={config.study_name!r} cannot name a folder; "
            "use letters, digits, '_', '.' and '-', and no '.' or '-' first."
        )


def _make_launcher(config: OptimizeConfig) -> Launcher:
    """Return the launcher of the workers.

    :raises UserError: Ray cannot be used, or several machines would share a journal file.
    """
    launch = make_launcher(config)
    if config.launcher == "ray" and config.storage is None and count_machines() > 1:
        raise UserError("the machines of a cluster cannot share a journal file; give --storage postgresql://...")
    return launch


def _where(config: OptimizeConfig) -> str:
    return redact(config.storage) if config.storage else "its journal"


def _default_name(config: OptimizeConfig) -> str:
    parts = (config.algo.name, config.env.name or config.env.id, Path(config.search_space).stem)
    return re.sub(r"[^\w.-]+", "-", "-".join(parts))


def _open_search(
    storage: BaseStorage, name: str, config: OptimizeConfig, space: search_space.Space
) -> tuple[Study, bool]:
    """Create or join the study of the search; trial 0 is the baseline."""
    base = train_config(config)
    identity = {
        **_experiment(base),
        "objective": config.objective,
        "n_seeds": config.n_seeds,
        "space": search_space.describe(space),
    }
    multi = [StudyDirection.MINIMIZE] if config.objective == "multi" else []
    baseline = search_space.baseline_params(space, base)
    defaults = _experiment(TrainConfig(algo=type(base.algo)(), env=type(base.env)()))
    return open_study(storage, name, [StudyDirection.MAXIMIZE, *multi], identity, [baseline], defaults)


def _experiment(config: TrainConfig) -> dict[str, Any]:
    """Return the keys that all trials of a study share: those of a recipe, and what the trials learn from."""
    return {
        key: value for key, value in flatten(asdict(config)) if key in OUTSIDE_RECIPE or key not in recipe.NOT_RECIPE
    }


def _open_reruns(
    storage: BaseStorage, name: str, candidates: Mapping[int, Mapping[str, Any]], config: OptimizeConfig
) -> Study:
    """Create or join the study of the re-runs and queue those that are missing."""
    study, _ = open_study(storage, f"{name}-rerun", [StudyDirection.MAXIMIZE], {"reruns": True})
    require_own_trials(study, RERUN_SPACE)
    for params in rerun_parameters(candidates, config.rerun_seeds):
        study.enqueue_trial(params, skip_if_exists=True)
    return study


def _worker_spec(
    study: Study, config: OptimizeConfig, space: search_space.Space, folder: Path, created: bool
) -> WorkerSpec:
    """Return the specification for workers of the search.

    Joining commands add random entropy, so that their samplers do not propose the trials of the first one again.
    """
    entropy = (config.seed, 0) if created else (config.seed, secrets.randbits(32))
    folder = folder.resolve()  # a Ray worker has another working directory
    objective = SearchObjective(config, space, folder / "trials")
    return WorkerSpec(config, study.study_name, config.n_trials, objective, folder, entropy)


def _rerun_spec(spec: WorkerSpec, reruns: Study, candidates: Mapping[int, Mapping[str, Any]]) -> WorkerSpec:
    objective = RerunObjective(spec.config, candidates, spec.folder / "reruns")
    config = replace(spec.config, sampler="random")  # every parameter is given
    return replace(
        spec, config=config, study_name=reruns.study_name, total=len(counted_trials(reruns)), objective=objective
    )


def _run(study: Study, spec: WorkerSpec, launch: Launcher, phase: str) -> None:
    """Run workers until the study has all its trials, and show the progress."""
    config, is_search = spec.config, isinstance(spec.objective, SearchObjective)
    with StudyProgress(
        study,
        title=f"{spec.folder.name}, {phase}",
        total=spec.total,
        enabled=config.progress,
        runs_per_trial=config.n_seeds if is_search else 1,
        runs_after=(config.rerun_best + 1) * config.rerun_seeds if is_search else 0,
    ) as progress:
        supervise(study, spec, config.workers, launch, progress.update)


def _require_evaluation(config: TrainConfig) -> None:
    """Raise UserError if trials are shorter than the time to their first evaluation."""
    freq, steps = config.eval.freq, config.total_timesteps
    if freq is not None and freq > steps:
        raise UserError(
            f"eval.freq={freq} is more than total_timesteps={steps}, so no trial would be evaluated; use a smaller "
            "eval.freq, or eval.freq=null."
        )


def _require_completed_trial(study: Study) -> None:
    """Raise EnvironmentFault if no trial completed, with the most frequent reason."""
    if not completed_trials(study):
        reasons = Counter(failure_reason(trial) for trial in counted_trials(study))
        raise EnvironmentFault(f"no trial completed; the most frequent reason: {reasons.most_common(1)[0][0]}")
