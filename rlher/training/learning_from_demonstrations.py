"""Learning from demonstrations: the dataset is checked and added to the replay buffer, and the actor is pretrained.

The losses are in :mod:`rlher.algos.actor_critic`, datasets in :mod:`rlher.her.datasets`.
"""

from dataclasses import replace
from typing import Any

from rlher.algos.actor_critic import ActorCritic
from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.config.environment import EnvConfig
from rlher.config.training import RunConfig
from rlher.core.errors import UserError
from rlher.core.signals import InterruptRequest
from rlher.envs.relay import add_hand_goal, without_hand_goal
from rlher.her.datasets import collected_env, read_dataset
from rlher.her.trajectories import Trajectory
from rlher.training.progress import TrainingProgress

UPDATES_PER_CHUNK = 100
"""Pretraining updates between two looks at the progress bar and at Ctrl-C."""


def load_demonstrations(config: RunConfig, model: OffPolicyAlgorithm) -> str:
    """Read a run's dataset into its replay buffer and its normalizer, and return a line about it.

    :raises UserError: the dataset is missing, damaged, or of another environment.
    """
    assert config.demos.path is not None
    space: Any = model.observation_space
    if config.env.relay.enabled:
        space = without_hand_goal(space)
    recorded = read_dataset(config.demos.path, space, model.action_space)
    _require_same_env(config)
    trajectories = [_as_in_training(trajectory, config.env) for trajectory in recorded]
    buffer: Any = model.replay_buffer
    try:
        buffer.set_demonstrations(trajectories)
    except ValueError as error:
        raise UserError(f"demos={config.demos.path} cannot be used: {error}") from error
    for trajectory in trajectories:
        model.update_normalizer(trajectory.observations)
    size = f"{len(trajectories):,} demonstrations of {sum(map(len, trajectories)):,} steps"
    return f"{size}, {config.demos.fraction:.1%} of each batch: {config.demos.path}"


def _require_same_env(config: RunConfig) -> None:
    collected_in, action_repeat = collected_env(str(config.demos.path))
    env = config.env.id.rpartition(":")[2]
    if collected_in is not None and collected_in.rpartition(":")[2] != env:
        raise UserError(f"demos={config.demos.path} was collected in {collected_in}, not in {env}; use one of {env}.")
    if action_repeat != config.env.action_repeat:
        raise UserError(
            f"demos={config.demos.path} was collected with env.action_repeat={action_repeat}, but the run has "
            f"{config.env.action_repeat}; use the same value for both."
        )


def _as_in_training(trajectory: Trajectory, env: EnvConfig) -> Trajectory:
    """Return an episode with the rewards and goals that the training environment would have shown."""
    observations = trajectory.observations
    if env.relay.enabled:
        observations = add_hand_goal(dict(observations), env.relay.hand, env.relay.origin)
    return replace(trajectory, observations=observations, rewards=trajectory.rewards + env.reward_offset)


def pretrain(
    model: ActorCritic, config: RunConfig, progress: TrainingProgress, interrupt_request: InterruptRequest
) -> None:
    """Do ``demos.pretrain_updates`` updates by behavioural cloning, in chunks; the learning rate follows its schedule.

    An interruption leaves no checkpoint, so a resumed run repeats the pretraining from the beginning.

    :raises KeyboardInterrupt: a stop was requested.
    """
    updates = config.demos.pretrain_updates
    for done in range(0, updates, UPDATES_PER_CHUNK):
        if interrupt_request.requested:
            raise KeyboardInterrupt
        model._update_current_progress_remaining(done, updates)
        model.pretrain(min(UPDATES_PER_CHUNK, updates - done), config.algo.batch_size)
        progress.show_pretraining(min(done + UPDATES_PER_CHUNK, updates), updates)
