"""The lines that `rlher train` prints before and after a run."""

import json
import sys

from rlher.algos.target_bounds import resolve_target_bounds
from rlher.config.training import TrainConfig
from rlher.core.console import command_line, escape_control, format_seconds, warn
from rlher.evaluation.metrics import format_summary
from rlher.runs import checkpoints
from rlher.runs.run_folder import MODELS, Run
from rlher.training.result import RunResult, Status


def model_notes(config: TrainConfig, device: str) -> list[str]:
    """Return a line each on device, target bounds, normalisation and an ignored step timeout."""
    notes = [f"device {device}, {config.threads} thread{'s' if config.threads != 1 else ''}"]
    bounds = resolve_target_bounds(
        getattr(config.algo, "target_q_bounds", None), config.env.training_reward_range, config.algo.gamma
    )
    if bounds:
        notes.append(f"target Q {_range(*bounds)}")
    if config.normalize.enabled:
        notes.append(f"observations normalised, clipped at {config.normalize.clip:g}")
    if config.env.step_timeout and config.vec_env == "dummy":
        timeout = f"env.step_timeout={config.env.step_timeout:g}"
        notes.append(f"{timeout} has no effect on training in the main process; use vec_env=subproc")
    return notes


def resume_notes(before: TrainConfig, config: TrainConfig) -> list[str]:
    """Return a line each on what a run that is resumed from a checkpoint does not continue as it began.

    :param before: its config so far.
    :param config: its new one.
    """
    notes, steps = [], config.total_timesteps
    if steps != before.total_timesteps and (keys := _scheduled_keys(config)):
        notes.append(
            f"total_timesteps was {before.total_timesteps:,} and is {steps:,}: {' and '.join(keys)} "
            f"{'follows' if len(keys) == 1 else 'follow'} the new length from here"
        )
    if config.callbacks:
        notes.append("callbacks begin anew: one that counts, for example to end the run, counts from here")
    return notes


def _scheduled_keys(config: TrainConfig) -> list[str]:
    """Return the keys whose effect depends on the share of the run that is done."""
    schedules = ("learning_rate_schedule", "target_policy_noise_schedule")
    keys = [f"algo.{name}" for name in schedules if getattr(config.algo, name, "constant") != "constant"]
    if hasattr(config.algo, "exploration_fraction"):
        keys.append("algo.exploration_fraction")
    return keys


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"


def print_header(run: Run, notes: list[str]) -> None:
    """Print what is about to be trained, and the notes on its config, on stderr."""
    config = run.config
    strategy = f"{config.her.goal_selection_strategy} k={config.her.n_sampled_goal}"
    her = strategy if config.her.n_sampled_goal else "no hindsight"
    title = f"{config.algo.name} on {config.env.name or config.env.id}, {her}, seed {config.seed} → {run}"
    recipe = (
        f"recipe {config.recipe}" if config.recipe else "no recipe: the algorithm's defaults where no value is given"
    )
    for line in [title, *(f"  {note}" for note in [recipe, *notes])]:
        print(escape_control(line), file=sys.stderr, flush=True)


def print_result(run: Run, result: RunResult) -> None:
    """Print the result on stdout, and the error and the next command on stderr."""
    if run.config.json:
        print(json.dumps({"run": str(run), **result.to_json()}), flush=True)
    elif result.status is Status.FINISHED:
        _print_evaluations(run, result)
    if result.status is not Status.FINISHED:
        _print_reason(run, result)
    elif not run.config.dry_run:
        print(escape_control(f"watch it: {command_line(['rlher', 'enjoy', str(run)])}"), file=sys.stderr)


def _print_reason(run: Run, result: RunResult) -> None:
    """Print why a run did not finish, where its models are, and how to resume it."""
    steps = f"{result.timesteps:,} step{'s' if result.timesteps != 1 else ''}"
    models = f"the models after {steps} are in {run}"
    if not any(run.model(name).exists() for name in MODELS):
        models = f"no model was saved in {run}"
    if result.status is Status.INTERRUPTED:
        evaluate = command_line(["rlher", "evaluate", str(run)])
        warn(f"interrupted; {models}. Evaluate: `{evaluate}`. {_how_to_continue(run)}")
    else:
        warn(f"{(result.error or 'failed').rstrip('.')}; {models}.")


def _how_to_continue(run: Run) -> str:
    """Return the command that resumes a run, and that it starts again if there is no checkpoint."""
    command = f"`{command_line(['rlher', 'train', '--resume', str(run)])}`"
    if checkpoints.newest_first(run.checkpoints):
        return f"Resume: {command}."
    reason = ", because checkpoint.every is null" if run.config.checkpoint.every is None else ""
    return f"It has no checkpoint{reason}, so it cannot be continued, only started again from step 0: {command}."


def _print_evaluations(run: Run, result: RunResult) -> None:
    if result.timesteps < run.config.total_timesteps:
        print(f"a callback ended training after {result.timesteps:,} of {run.config.total_timesteps:,} steps")
    print(f"{f'after {result.timesteps:,} steps':<22} {format_summary(result.final)}")
    if result.best and result.best["timesteps"] != result.timesteps:
        label = f"best, at {result.best['timesteps']:,}"
        print(f"{label:<22} {format_summary(result.best)}")
    print(escape_control(f"{format_seconds(result.wall_seconds)}, kept in {run}"), flush=True)
