"""`rlher train`: one training run, from config to result."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.algos.factory import build_model, validate_actions
from rlher.algos.target_bounds import resolve_target_bounds
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.errors import EnvironmentFault, UserError, os_error_reason
from rlher.core.files import warn_on_write_error
from rlher.core.signals import StopRequest
from rlher.envs import make_env
from rlher.envs.contract.checker import require_goal_env
from rlher.envs.contract.probe import describe
from rlher.envs.normalize import GoalNormalize
from rlher.envs.rendering import before_building
from rlher.envs.replayable import Repeatable
from rlher.envs.vec import make_goal_envs
from rlher.evaluation.metrics import Summary, summarize
from rlher.evaluation.policy import make_policy
from rlher.evaluation.rollout import FINAL_SEED_OFFSET, play_episodes
from rlher.runs import model_file, run_folder
from rlher.runs.run_folder import Run
from rlher.training.best_model import BestModel
from rlher.training.callbacks.artifacts import keepsakes
from rlher.training.callbacks.checkpoint import Checkpoints
from rlher.training.callbacks.evaluation import Evaluate, ProgressBar, Stopped, all_finite
from rlher.training.defaults import resolve
from rlher.training.loggers import services
from rlher.training.loggers.sb3_logger import make_logger
from rlher.training.memory_check import require_room
from rlher.training.summary import announce, model_notes


@dataclass(frozen=True)
class Ready:
    """Everything a run needs, built and checked; nothing of it is written down yet.

    :param config: with every open value decided.
    :param envs: the training environments, below the normaliser.
    :param notes: what was decided and found, a sentence each.
    """

    config: TrainConfig
    model: OffPolicyAlgorithm
    envs: Repeatable
    normalizer: GoalNormalize | None
    notes: list[str]


def fit(
    config: TrainConfig, on_evaluation: Callable[[list[dict[str, Any]]], None] | None = None, final: bool = True
) -> tuple[Run, dict[str, Any]]:
    """Train, evaluate and keep everything in a run folder; return the run and its result.

    :param on_evaluation: called with all rows of ``evaluations.csv`` after each evaluation; it may raise
        :class:`Stopped`, which ends the run with the status ``"stopped"``.
    :param final: play the last evaluation, on starts no model was chosen by.
    :raises UserError: the config asks for something that cannot be done; nothing was started.
    """
    started = time.monotonic()
    with prepare(config) as ready:
        run = run_folder.create(ready.config)
        announce(run, ready.notes)
        with run_folder.locked(run.folder):
            return run, learn(run, ready, started, on_evaluation or (lambda rows: None), final)


@contextmanager
def prepare(config: TrainConfig) -> Iterator[Ready]:
    """Check a config and build its environments and model, closed again when the block ends.

    :raises UserError: the config asks for something that cannot be done; nothing was started.
    """
    _require_sense(config)
    env = describe(config.env)
    warnings = [finding.sentence for finding in require_goal_env(env) if finding.level == "warning"]
    probed = _probed(config.env, env)
    config, notes = resolve(replace(config, env=env))
    th.set_num_threads(config.threads or 1)
    envs = Repeatable(lambda seed: make_goal_envs(config.env, config.n_envs, seed, config.vec_env), config.seed)
    try:
        validate_actions(config.algo.name, envs.action_space)
        room = require_room(config, envs)
        normalizer = GoalNormalize(envs, clip=config.normalize.clip) if config.normalize.enabled else None
        outer = normalizer or envs
        model = build_model(config.algo, config.her, config.env, outer, config.seed, config.device, config.engine)
        if config.init_from:
            model_file.load_all(run_folder.find(config.init_from, config.logs).model("last"), model, normalizer)
        notes = [*warnings, *probed, *notes, *model_notes(config, str(model.device)), room]
        yield Ready(config, model, envs, normalizer, notes)
    finally:
        envs.close()


def _probed(given: EnvConfig, found: EnvConfig) -> list[str]:
    """List what the config left open about an environment and a few episodes of play told."""
    values = {item.name: getattr(found, item.name) for item in fields(found) if getattr(given, item.name) is None}
    return [f"env.{name}={value}: probed" for name, value in values.items() if value is not None]


def _require_sense(config: TrainConfig) -> None:
    """Refuse before anything is built what would be refused, or silently changed, later."""
    if config.device.startswith("cuda") and not th.cuda.is_available():
        raise UserError(f"device={config.device}: torch sees no CUDA device; device=auto takes what there is.")
    resolve_target_bounds(
        getattr(config.algo, "target_q_bounds", None), config.env.training_reward_range, config.algo.gamma
    )
    if config.init_from:
        run_folder.find(config.init_from, config.logs)
    if config.record:
        before_building()
    services.require(config.logger)


def learn(
    run: Run,
    ready: Ready,
    started: float,
    on_evaluation: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    final: bool = True,
    since: Path | None = None,
) -> dict[str, Any]:
    """Train, evaluate, keep, and return what ``result.json`` holds.

    :param started: the monotonic time to count from.
    :param on_evaluation: as :func:`fit`.
    :param final: as :func:`fit`.
    :param since: checkpoint to go on from.
    """
    config, model, normalizer, stop = run.config, ready.model, ready.normalizer, StopRequest()
    best = BestModel(run.model("best"))

    def measure(episodes: int, seed: int) -> Summary:
        # An environment of its own, so that what comes of it depends on nothing but the policy and the seed.
        env, played = make_env(config.env), []
        try:
            for episode in play_episodes(env, make_policy(model, normalizer), episodes, seed):
                stop.raise_if_requested()
                played.append(episode)
        finally:
            env.close()
        return summarize(played)

    def keep_rows(rows: list[dict[str, Any]]) -> None:
        with warn_on_write_error("the best model"):
            best.write()
        with warn_on_write_error("evaluations.csv"):
            run.write_evaluations(rows)
        on_evaluation(rows)

    evaluations = Evaluate(
        lambda: measure(config.eval.episodes, config.eval.seed),
        config.eval.freq or config.total_timesteps,
        keep_rows,
        lambda: best.take(model_file.content_of(model, normalizer)),
    )
    checkpoints = Checkpoints(
        run.checkpoints,
        config.checkpoint,
        ready.envs,
        normalizer,
        evaluations,
        best,
        stop,
        at_start=config.init_from is not None,
    )
    if since is not None:
        checkpoints.restore(since, model)
        with warn_on_write_error("evaluations.csv"):
            run.write_evaluations(evaluations.rows)
    model.set_logger(make_logger(run.folder, config.tensorboard, model.num_timesteps))
    result: dict[str, Any] = {"status": "failed", "error": None, "checkpoint": "last"}

    def rollouts() -> None:
        with ProgressBar(config.total_timesteps, evaluations, config.progress) as progress:
            rest = config.total_timesteps - model.num_timesteps
            callbacks = [checkpoints, evaluations, progress, *keepsakes(run, evaluations, normalizer)]
            model.learn(rest, callback=callbacks, reset_num_timesteps=since is None)

    with stop.catch_signals(), services.telling(config.logger, run, model, result):
        try:
            _attempt(rollouts, model, result)
            if result["status"] == "finished" or stop.at_step_boundary:
                checkpoints.finish()
        finally:  # also where the exception is a bug of ours and goes on up
            _keep(run, model, normalizer, best, result, started, over=not final)
        if final and result["status"] == "finished":
            _attempt(lambda: result.update(_final(run, model, normalizer, evaluations, measure)), model, result)
            _keep_result(run, result, started)
    return result


def _attempt(work: Callable[[], None], model: OffPolicyAlgorithm, result: dict[str, Any]) -> None:
    """Do a part of the run and note in ``result`` how it ended."""
    result["status"] = "failed"
    try:
        work()
    except KeyboardInterrupt:
        result["status"] = "interrupted"
    except Stopped:
        result["status"] = "stopped"
    except EnvironmentFault as error:
        result["error"] = str(error)
    except OSError as error:
        result["error"] = f"{error.filename or 'a file'}: {os_error_reason(error)}"
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
        if all_finite(model):
            raise
    else:
        result["status"] = "finished"


def _keep(
    run: Run,
    model: OffPolicyAlgorithm,
    normalizer: GoalNormalize | None,
    best: BestModel,
    result: dict[str, Any],
    started: float,
    over: bool,
) -> None:
    """Write the models and how the run ended, before anything else can go wrong.

    :param over: nothing more is to come; a run that is killed in its last evaluation is not finished.
    """
    result["timesteps"] = model.num_timesteps
    with _noting(result, "the best model"):
        best.write()
    if all_finite(model):
        with _noting(result, "the last model"):
            model_file.save(run.model("last"), model, normalizer)
    else:
        result["error"] = (
            f"training diverged: weights are no longer finite after {model.num_timesteps:,} steps, so only the best "
            "model is kept. A smaller algo.learning_rate or algo.target_q_bounds may keep it together."
        )
        result["status"] = "failed"
    _keep_result(run, result, started, over)


def _keep_result(run: Run, result: dict[str, Any], started: float, over: bool = True) -> None:
    result["wall_seconds"] = round(time.monotonic() - started, 1)
    with _noting(result, "result.json"):
        run.write_result(result if over or result["status"] != "finished" else result | {"status": "interrupted"})


@contextmanager
def _noting(result: dict[str, Any], name: str) -> Iterator[None]:
    """Let a run whose last files cannot be written be a failed one, and not end in a traceback."""
    try:
        yield
    except OSError as error:
        before = f"{result['error'].rstrip('.')}; then " if result["error"] else ""
        result |= {"status": "failed", "error": f"{before}{name} could not be written ({os_error_reason(error)})."}


def _final(
    run: Run,
    model: OffPolicyAlgorithm,
    normalizer: GoalNormalize | None,
    evaluations: Evaluate,
    measure: Callable[[int, int], Summary],
) -> dict[str, Any]:
    """Evaluate the last model, and the best one where it is another, on episodes no model was chosen by."""
    episodes, seed = run.config.eval.final_episodes, run.config.eval.seed + FINAL_SEED_OFFSET
    final: dict[str, Any] = measure(episodes, seed)
    best = evaluations.best
    if best is None or best["timesteps"] >= model.num_timesteps:
        model_file.save(run.model("best"), model, normalizer)
        return final | {"best": {**final, "timesteps": model.num_timesteps}}
    model_file.load_policy(run.model("best"), model, normalizer)
    return final | {"best": {**measure(episodes, seed), "timesteps": best["timesteps"]}}
