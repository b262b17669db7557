"""`rlher optimize`: search for a better recipe, and say how sure it is that it is better."""

import re
import secrets
from collections import Counter
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection

from rlher.config.tuning import OptimizeConfig
from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.signals import interrupt_on_sigterm
from rlher.training.trainer import prepare
from rlher.tuning import recipe, search_space
from rlher.tuning.launchers import Launcher, launcher
from rlher.tuning.objective import Rerun, Search, recipe_of
from rlher.tuning.outputs import hand_back
from rlher.tuning.progress import Progress, reason
from rlher.tuning.shared_study import counted, open_study, queue_again
from rlher.tuning.significance import candidates, complete, plan, verdict
from rlher.tuning.storage import open_storage
from rlher.tuning.supervisor import supervise
from rlher.tuning.worker import Order

INTERRUPTED = 130


def optimize(config: OptimizeConfig) -> int:
    """Search, run the best trials again, and hand the best recipe back.

    Begun again with the same keys it goes on where it was; begun elsewhere on the same storage it joins.

    :return: exit code: 0, or 130 after Ctrl-C.
    :raises UserError: the config asks for something that cannot be done; no trial was started.
    :raises EnvironmentFault: no trial came to an end, or workers die as fast as they are started.
    """
    _require_sense(config)
    tuned = search_space.load(config.search_space, recipe_of(config))
    with prepare(recipe_of(config)):  # what cannot be trained stops here
        pass
    name = config.study_name or _default_name(config)
    folder = Path(config.logs) / "optuna" / name
    here = folder.resolve()  # a Ray worker has another working folder
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    hands = launcher(config)
    storage = open_storage(config.storage, folder, config.heartbeat, queue_again)
    study, created = _open(storage, name, config, tuned)
    order = Order(
        config, name, config.n_trials, Search(config, tuned, here / "trials"), here, _entropy(config.seed, created)
    )
    try:
        with interrupt_on_sigterm():
            _run(study, order, hands, f"{name}, search")
            _require_success(study)
            chosen = candidates(study, config)
            reruns = _queue(storage, f"{name}-rerun", plan(chosen, config.rerun_seeds))
            rerun = Rerun(config, chosen, here / "reruns")
            again = replace(order, study_name=reruns.study_name, total=len(counted(reruns)), objective=rerun)
            _run(reruns, again, hands, f"{name}, best trials again")
    except KeyboardInterrupt:
        done = sum(trial.state.is_finished() for trial in counted(study))
        told = f"stopped with {done} of {config.n_trials} trials done. The same command goes on from there."
        warn(told)
        return INTERRUPTED
    hand_back(study, verdict(reruns, chosen, config), chosen, config, folder)
    return 0


def _require_sense(config: OptimizeConfig) -> None:
    if config.sampler == "cmaes" and config.objective == "multi":
        raise UserError("sampler=cmaes maximises one objective only: take sampler=tpe with objective=multi.")
    if config.sampler == "cmaes" and find_spec("cmaes") is None:
        raise UserError("sampler=cmaes needs a package of its own: pip install 'rlher[cmaes]'.")
    if config.study_name is not None and not re.fullmatch(r"\w[\w.-]*", config.study_name):
        what = "letters, digits, _, . and - only, and no dot first"
        raise UserError(f"study_name={config.study_name!r} is to name a folder: {what}.")


def _default_name(config: OptimizeConfig) -> str:
    parts = (config.algo.name, config.env.name or config.env.id, Path(config.search_space).stem)
    return re.sub(r"[^\w.-]+", "-", "-".join(parts))


def _open(storage: BaseStorage, name: str, config: OptimizeConfig, tuned: search_space.Space) -> tuple[Study, bool]:
    """Create or join the study; the recipe is its trial 0."""
    start = recipe_of(config)
    identity = {
        **dict(recipe.flat(asdict(start))),
        "objective": config.objective,
        "n_seeds": config.n_seeds,
        "space": search_space.describe(tuned),
    }
    multi = [StudyDirection.MINIMIZE] if config.objective == "multi" else []
    return open_study(storage, name, [StudyDirection.MAXIMIZE, *multi], identity, [search_space.start(tuned, start)])


def _entropy(seed: int, created: bool) -> tuple[int, ...]:
    """Return what the samplers' seeds are made of: who joins must not propose what the first proposed."""
    return (seed, 0) if created else (seed, secrets.randbits(32))


def _queue(storage: BaseStorage, name: str, runs: list[dict[str, int]]) -> Study:
    """Open the study of the re-runs and queue those that are not in it yet."""
    study, _ = open_study(storage, name, [StudyDirection.MAXIMIZE], {"reruns": True})
    for params in runs:
        study.enqueue_trial(params, skip_if_exists=True)
    return study


def _run(study: Study, order: Order, hands: Launcher, title: str) -> None:
    config = order.config
    with Progress(study, title, order.total, config.progress) as progress:
        supervise(study, order, config.workers, hands, progress)


def _require_success(study: Study) -> None:
    if not complete(study):
        reasons = Counter(reason(trial) for trial in counted(study)).most_common(1)
        raise EnvironmentFault(f"no trial came to an end; most often: {reasons[0][0]}")
