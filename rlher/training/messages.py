"""The errors and warnings of training, one function each: ``<what is wrong>; <what to do>``."""

from pathlib import Path

from rlher.core.errors import os_error_reason

# ------------------------------------------------------------------------------------------------ before a run


def no_cuda(device: str) -> str:
    """Return the error for a CUDA device where torch has none."""
    return f"device={device} needs CUDA, but torch finds no CUDA device; use device=auto."


def not_installed(logger: str) -> str:
    """Return the error for a logger whose package is not installed."""
    return (
        f"logger={logger} needs the package {logger}, which is not installed; "
        f"run pip install 'rlher[{logger}]' (in a checkout: '.[{logger}]')."
    )


def not_enough_memory(needed: str, transitions: int, free: str, fits: int) -> str:
    """Return the error for a replay buffer that is larger than the free memory."""
    return (
        f"the replay buffer needs {needed} for {transitions:,} transitions, but {free} of memory are free; "
        f"use algo.buffer_size={fits}."
    )


def not_enough_address_space(transitions: int, fits: int) -> str:
    """Return the error for a replay buffer that the system grants no address space for."""
    return (
        f"the system grants no address space for a replay buffer of {transitions:,} transitions; "
        f"use algo.buffer_size={fits}."
    )


def folder_not_writable(folder: Path, error: OSError) -> str:
    """Return the error for log files that cannot be created."""
    return f"cannot write {folder}: {os_error_reason(error)}; free space or choose another folder with logs=…"


def step_timeout_ignored(seconds: float) -> str:
    """Return the warning for a step timeout without subprocesses."""
    return f"env.step_timeout={seconds:g} has no effect in the main process; use vec_env=subproc"


# ------------------------------------------------------------------------------------------------ during a run


def diverged(timesteps: int) -> str:
    """Return the error for weights that are no longer finite."""
    return (
        f"training diverged: weights are not finite after {timesteps:,} steps, so only the best model is kept; "
        "use a smaller algo.learning_rate or set algo.target_q_bounds."
    )


def not_written(name: str, error: OSError, before: str | None) -> str:
    """Return the error for a file that cannot be written at the end of a run.

    :param before: an earlier error of the same run.
    """
    earlier = f"{before.rstrip('.')}; then " if before else ""
    return f"{earlier}{name} could not be written ({os_error_reason(error)})."


def log_not_written(name: str, error: OSError) -> str:
    """Return the warning for a log file that cannot be written."""
    return f"{name} cannot be written ({os_error_reason(error)}); the run continues without it."


def service_failed(name: str, reason: str) -> str:
    """Return the warning for a tracking service that raised an exception."""
    return f"logging to {name} failed ({reason}); the run continues without it."


def no_clip(error: Exception) -> str:
    """Return the warning for an environment that cannot be filmed."""
    return f"no clips are recorded: {error}"


# ----------------------------------------------------------------------------------------------- checkpoints


def checkpoint_not_written(timesteps: int, error: OSError) -> str:
    """Return the warning for a checkpoint that cannot be written."""
    return f"no checkpoint at {timesteps:,} steps: {error}; earlier checkpoints are kept."


def checkpoint_damaged(error: Exception) -> str:
    """Return the note on a checkpoint whose checksums do not match."""
    return f"{str(error).rstrip('.')}; the previous checkpoint is used, if there is one."


def checkpoint_unreadable(checkpoint: Path, error: OSError) -> str:
    """Return the error for a checkpoint that cannot be read now, but may be intact."""
    return f"{checkpoint} cannot be read ({os_error_reason(error)}); check the disk and try again."


def checkpoint_invalid(checkpoint: Path, reason: str) -> str:
    """Return the error for a checkpoint whose content does not fit the run."""
    return f"{checkpoint} cannot be resumed from: {reason}; delete it to use the previous checkpoint."


def episodes_not_repeatable() -> str:
    """Return the warning for an environment that does not repeat its episodes."""
    return (
        "the environment does not repeat the running episodes from seed and actions, or lost a process; "
        "they are truncated, and the run does not continue exactly as it would have without the interruption."
    )


# ------------------------------------------------------------------------------------------------- resuming


def already_finished(folder: Path, timesteps: int) -> str:
    """Return the error for a finished run that is resumed without more steps."""
    return (
        f"{folder} is finished, with {timesteps:,} steps; "
        f"to train for as many more, run `rlher train --resume {folder} total_timesteps=+{timesteps}`."
    )


def too_few_timesteps(folder: Path, total_timesteps: int, done: int) -> str:
    """Return the error for a total that is below the steps already done."""
    return f"total_timesteps={total_timesteps} is too small: {folder} is at {done:,} steps already; use a larger one."


def finished_without_checkpoint(folder: Path, damaged: list[str]) -> str:
    """Return the error for a finished run that has no valid checkpoint.

    :param damaged: a note for each damaged checkpoint.
    """
    reason = " ".join(damaged) or "checkpoint.every is null"
    return f"{folder} is finished and has no checkpoint ({reason}); start a new run with init_from={folder}."
