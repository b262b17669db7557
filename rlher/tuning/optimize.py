"""`rlher optimize`: search for better hyperparameters and test whether the best trials beat the baseline."""

import secrets
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage
from optuna.study import Study
from sqlalchemy.exc import SQLAlchemyError

from rlher.config.key import param_values
from rlher.config.training import RunConfig
from rlher.config.tuning import NOT_IN_STUDY, OptimizeConfig
from rlher.core.console import print_note
from rlher.core.errors import RunError, UserError
from rlher.core.signals import interrupt_on_stop_signals
from rlher.core.writing import write_text
from rlher.jobs.job_pool import JobPool
from rlher.run.run_folder import COMMAND_FILE, safe_name
from rlher.training.preparation import prepare
from rlher.tuning.outputs import SearchResult, write_results, write_search_files
from rlher.tuning.reruns import RerunRunner, compare_candidates, queue_reruns, select_candidates
from rlher.tuning.samplers_and_pruners import make_pruner, make_sampler
from rlher.tuning.search import Search
from rlher.tuning.search_space import load_space
from rlher.tuning.study_storage import open_storage, open_study, storage_error
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trial_source import TrialSource
from rlher.tuning.trials import completed_trials, counted_trials, failure_reason


def optimize(config: OptimizeConfig, command_line: str) -> SearchResult:
    """Search, train the best trials and the baseline again on fresh seeds, compare them and write the results.

    The same command resumes a study; another command with the same storage and study name joins it.

    :param command_line: the command line, to write into the folders of the study and of its runs.
    :raises UserError: the config is invalid, or the database cannot be used.
    :raises RunError: no trial completed.
    :raises KeyboardInterrupt: Ctrl-C or SIGTERM. The message says how many trials are finished.
    """
    if config.launcher == "ray" and config.ray_address is not None and config.storage is None:
        raise UserError("the machines of a cluster cannot share an SQLite file; give --storage postgresql://...")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = config.study_name or f"{config.algo.label}-{config.env.label}-{Path(config.space).stem}"
    folder = Path(config.logs, "optuna", safe_name(name)).resolve()  # a Ray worker has another working directory

    space = load_space(config.space, config.baseline)
    try:
        with JobPool(config, ray_retries=0) as pool:
            with prepare(config.baseline) as setup:  # fails here if every trial would fail
                search = Search(replace(config, env=setup.config.env), space, folder, command_line)
            with interrupt_on_stop_signals():
                storage = open_storage(config.storage, folder, config.heartbeat)
                study = _open_study(storage, search, baseline=config.baseline)
                _run_search(study, search, pool)
                return _rerun_candidates(study, search, storage, pool)
    except (StorageInternalError, SQLAlchemyError, ValueError) as error:  # ValueError: a damaged date or JSON text
        raise storage_error(config.storage, error) from error


def _run_search(study: Study, search: Search, pool: JobPool) -> None:
    """Run the trials of a search, and write the files of the search, even after Ctrl-C."""
    config, folder = search.config, search.folder
    folder.mkdir(parents=True, exist_ok=True)  # a study in a database has none yet
    write_text(folder / COMMAND_FILE, search.command_line + "\n")
    if config.progress:
        reruns_text = f"{config.rerun_best + 1} candidates × {config.rerun_seeds} seeds"
        print_note(f"{config.n_trials} trials × {config.n_seeds} seeds, then {reruns_text}")
    runner = TrialRunner(search, study.study_name)
    jobs = TrialSource(study, runner, config.n_trials, f"{folder.name}, search")
    try:
        _run(jobs, pool)
    finally:  # after Ctrl-C, too
        write_search_files(study, search)
    if not completed_trials(study, search.space):
        reasons = Counter(failure_reason(trial) for trial in counted_trials(study))
        raise RunError(f"no trial completed; the most frequent reason: {reasons.most_common(1)[0][0]}")


def _rerun_candidates(study: Study, search: Search, storage: BaseStorage, pool: JobPool) -> SearchResult:
    """Train the baseline and the best trials of a search again, compare them, and write the results.

    :param study: the study of the search.
    """
    candidates = select_candidates(study, search)
    reruns = queue_reruns(storage, candidates, search)
    runner, n_reruns = RerunRunner(search, reruns.study_name), len(counted_trials(reruns))
    _run(TrialSource(reruns, runner, n_reruns, f"{search.folder.name}, re-runs of the best trials"), pool)
    return write_results(study, compare_candidates(reruns, candidates, search), search)


def _run(jobs: TrialSource, pool: JobPool) -> None:
    """Run trials.

    :raises KeyboardInterrupt: Ctrl-C or SIGTERM. The message says how many trials of the study are finished.
    """
    try:
        pool.run(jobs)
    except KeyboardInterrupt:
        done = sum(trial.state.is_finished() for trial in counted_trials(jobs.study))
        progress = f"{jobs.title}: stopped after {done} of {jobs.total} trials"
        raise KeyboardInterrupt(f"{progress}; run the same command again to resume.") from None


def _params_of_study(config: RunConfig) -> dict[str, Any]:
    return {key: value for key, value in param_values(config).items() if key not in NOT_IN_STUDY}


def _open_study(storage: BaseStorage, search: Search, baseline: RunConfig) -> Study:
    """Create or join the study of a search, with its sampler and pruner; trial 0 is the baseline.

    :param baseline: the baseline before its environment is probed, because what is probed does not identify a study.
    :raises UserError: the study belongs to another search.
    """
    config = search.config
    identity = {
        **_params_of_study(baseline),
        "objective": config.objective,
        "n_seeds": config.n_seeds,
        "time_limit": config.time_limit,
        "space": {key: str(distribution) for key, distribution in sorted(search.space.items())},
    }
    defaults = _params_of_study(baseline.defaults())
    study, created = open_study(storage, search.folder.name, identity, search.baseline_params, defaults)
    # A command that joins must not propose the same trials as the first command.
    study.sampler = make_sampler(config.sampler, config.seed if created else secrets.randbits(32))
    study.pruner = make_pruner(config)
    return study
