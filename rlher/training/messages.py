"""What `rlher train` prints before and after a run."""

import shlex

from rlher.core.console import format_seconds, print_line, print_note
from rlher.evaluation.metrics import format_summary
from rlher.run.result import RunResult
from rlher.run.run_folder import MODEL_FILES, RunFolder


def print_header(run: RunFolder, notes: list[str]) -> None:
    """Print what is about to be trained, and the notes on its config, on stderr, unless ``progress=false``."""
    config = run.config
    if not config.progress:
        return
    strategy = f"{config.her.goal_selection_strategy} k={config.her.n_sampled_goal}"
    her = strategy if config.her.n_sampled_goal else "no hindsight"
    title = f"{config.title}, {her}, seed {config.seed} → {run}"
    recipe = f"recipe {config.recipe}" if config.recipe else "no recipe; keys that you did not set have their defaults"
    print_note(title)
    for line in [recipe, *notes]:
        print_note(f"  {line}")


def print_result(run: RunFolder, result: RunResult) -> None:
    """Print the result of a finished run on stdout, unless it was printed as JSON, and the next command on stderr."""
    if not run.config.json:
        for line in final_lines(run, result):
            print_line(line)
    if run.config.progress:
        print_note(f"watch it: {shlex.join(['rlher', 'enjoy', str(run)])}")


def interruption_text(run: RunFolder) -> str:
    """Return the message of a run that was interrupted: which models it has, and how to go on."""
    evaluate = shlex.join(["rlher", "evaluate", str(run)])
    go_on = f"Resume: `{shlex.join(['rlher', 'resume', str(run)])}`"
    if run.config.checkpoint.freq is None:  # resuming would start from step 0 and delete the models
        go_on = f"Go on from it: {run.init_from_override()}"
    return f"interrupted; {saved_models_text(run)}. Evaluate: `{evaluate}`. {go_on}."


def saved_models_text(run: RunFolder) -> str:
    """Return which models a run that did not finish has."""
    saved = " and ".join(name for name in MODEL_FILES.values() if (run.folder / name).exists())
    return f"{saved} saved in {run}" if saved else f"no model was saved in {run}"


def final_lines(run: RunFolder, result: RunResult) -> list[str]:
    """Return the final evaluations of a finished run, the time it took, and where it is, as lines of text."""
    lines = []
    if result.timesteps < run.config.total_timesteps:
        steps = f"{result.timesteps:,} of {run.config.total_timesteps:,} steps"
        lines.append(f"a callback ended training after {steps}; its _on_step must return True to continue")
    lines.append(f"{f'after {result.timesteps:,} steps':<22} {format_summary(result.final)}")
    if result.best and result.best["timesteps"] != result.timesteps:
        label = f"best, at {result.best['timesteps']:,}"
        lines.append(f"{label:<22} {format_summary(result.best)}")
    return [*lines, f"{format_seconds(result.wall_seconds)}, kept in {run}"]
