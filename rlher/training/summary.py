"""What a training run says: what was resolved before it, what came of it, how to go on."""

import json
import sys
from typing import Any

from rlher.algos.target_bounds import resolve_target_bounds
from rlher.config.training import TrainConfig
from rlher.core.console import escape_control, warn
from rlher.core.errors import EnvironmentFault
from rlher.envs.vec import in_processes
from rlher.evaluation.metrics import format_summary
from rlher.runs.run_folder import MODELS, Run


def model_notes(config: TrainConfig, device: str) -> list[str]:
    """Say in a sentence each what the model runs on and what it is spared."""
    bounds = resolve_target_bounds(
        getattr(config.algo, "target_q_bounds", None), config.env.training_reward_range, config.algo.gamma
    )
    notes = [f"device {device}, {config.threads} thread{'s' if config.threads != 1 else ''}"]
    if bounds:
        notes.append(f"target Q {_range(*bounds)}")
    if config.normalize.enabled:
        notes.append(f"observations normalised, clipped at {config.normalize.clip:g}")
    if config.env.step_timeout and not in_processes(config.n_envs, config.vec_env):
        notes.append(
            f"env.step_timeout={config.env.step_timeout:g} cannot be kept: a step in this process can only be waited "
            "for; vec_env=subproc gives the environment one of its own"
        )
    return notes


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"


def announce(run: Run, notes: list[str]) -> None:
    """Print what is about to be trained, on stderr."""
    config = run.config
    her = (
        f"{config.her.goal_selection_strategy} k={config.her.n_sampled_goal}"
        if config.her.n_sampled_goal
        else "no hindsight"
    )
    what = f"{config.algo.name} on {config.env.name or config.env.id}, {her}, seed {config.seed} → {run.folder}"
    recipe = f"recipe {config.recipe}" if config.recipe else "no recipe: the algorithm's defaults"
    for line in [what, *(f"  {note}" for note in [recipe, *notes])]:
        print(escape_control(line), file=sys.stderr)


def report(run: Run, result: dict[str, Any]) -> int:
    """Print what came of the run, the result on stdout and what to do next on stderr, and return the exit code."""
    folder = run.folder
    if run.config.json:
        print(json.dumps({"run": str(folder), **result}))
    elif result["status"] == "finished":
        print(f"{'after ' + format(result['timesteps'], ',') + ' steps':<22} {format_summary(result)}")
        if result["best"]["timesteps"] != result["timesteps"]:
            print(f"{'best, at ' + format(result['best']['timesteps'], ','):<22} {format_summary(result['best'])}")
        print(escape_control(f"{result['wall_seconds']:.0f} s, kept in {folder}"))
    if result["status"] == "finished":
        if not run.config.dry_run:
            print(escape_control(f"watch it: rlher enjoy {folder}"), file=sys.stderr)
        return 0
    kept = f"What was learnt in {result['timesteps']:,} steps is kept in {folder}"
    if not any(run.model(name).exists() for name in MODELS):
        kept = f"No model of it is kept in {folder}"
    go_on = f"`rlher evaluate {folder}` measures it; `rlher train --resume {folder}` goes on."
    if result["status"] == "interrupted":
        warn(f"stopped. {kept}. {go_on}")
        return 130
    warn(f"{(result['error'] or 'failed').rstrip('.')}. {kept}.")
    return EnvironmentFault.exit_code
