"""Twin delayed DDPG (TD3), and DDPG as TD3 without its three additions."""

from typing import Any

import stable_baselines3
import torch as th
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.utils import FloatSchedule

from rlher.algos.actor_critic import ActorCritic
from rlher.algos.networks import apply_network
from rlher.algos.schedules import make_schedule
from rlher.algos.update_batch import LoggedValues, UpdateBatch
from rlher.her.replay_buffer import HerReplayBufferSamples


class TD3(ActorCritic, stable_baselines3.TD3):
    """Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477): ``stable_baselines3.TD3`` with the fast update.

    :param action_l2: weight of the mean squared action in the actor's loss (arXiv:1802.09464); actions span [-1, 1].
    :param target_policy_noise_schedule: schedule of ``target_policy_noise``, see
        :func:`~rlher.algos.schedules.make_schedule`. The critic needs the noise early in a run. Late in a run, the
        noise hides which actions are precise.
    """

    def __init__(
        self, *args: Any, action_l2: float = 0.0, target_policy_noise_schedule: str = "constant", **kwargs: Any
    ) -> None:
        self.action_l2, self.target_policy_noise_schedule = action_l2, target_policy_noise_schedule
        super().__init__(*args, **kwargs)

    def setup_update(self) -> None:
        """Set the schedule of the noise in the target actions, too."""
        super().setup_update()
        name = self.target_policy_noise_schedule
        schedule = make_schedule(name, self.target_policy_noise, key="algo.target_policy_noise_schedule")
        self.target_policy_noise_fn = FloatSchedule(schedule)

    def update(self, batch: UpdateBatch, gradient_step: int) -> tuple[LoggedValues, th.Tensor]:
        """Update the critics and, every ``policy_delay`` updates, the actor and all target networks."""
        critic_loss, errors = self.critic_step.take(batch)
        logged = {"critic_loss": critic_loss}
        if self._n_updates % self.policy_delay == 0:
            logged |= self.actor_step.take(batch)[1]
            self.update_targets()
        return logged, errors

    def make_batch(self, samples: HerReplayBufferSamples) -> UpdateBatch:
        """Return a batch with the smoothing noise of the target actions."""
        batch = super().make_batch(samples)
        deviation = self.target_policy_noise_fn(self._current_progress_remaining)
        noise = th.empty_like(batch.actions).normal_(0, deviation)
        return batch._replace(next_noise=noise.clamp_(-self.target_noise_clip, self.target_noise_clip))

    def critic_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, th.Tensor]:
        """Return the squared TD error, summed over the critics, and the TD errors.

        The target is the minimum of the target critics.
        """
        with th.no_grad():
            actions = apply_network(self.actor_target.mu, self.features(self.actor_target, batch.next_obs), self.bf16)
            actions = (actions + batch.next_noise).clamp(-1, 1)
            value = self.target_q_values(batch.next_obs, actions).amin(dim=0)
            target = batch.rewards + batch.discounts * value
        errors = self.q_values(batch.obs, batch.actions) - target
        return len(errors) * batch.weighted_mean(errors**2), errors

    def actor_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, LoggedValues]:
        """Return the action penalty minus the value of the actor's actions."""
        actions = apply_network(self.actor.mu, self.features(self.actor, batch.obs), self.bf16)
        action_penalty = self.action_l2 * (actions**2).mean()
        value = self.aggregate_q_values(self.q_values(batch.obs, actions, n_critics=1))
        return action_penalty - value.mean(), {}

    def aggregate_q_values(self, values: th.Tensor) -> th.Tensor:
        """Return the first critic's value."""
        return values[0]

    def target_networks(self) -> list[tuple[th.nn.Module, th.nn.Module]]:
        """Return critics and actor with their target networks."""
        return [*super().target_networks(), (self.actor, self.actor_target)]

    def pretrain(self, updates: int, batch_size: int) -> None:
        """Clone demonstrations, and give the target actor the same weights."""
        super().pretrain(updates, batch_size)
        self.actor_target.load_state_dict(self.actor.state_dict())

    def act(self, obs: PyTorchObs, deterministic: bool) -> th.Tensor:
        """Return the actor's action."""
        actions: th.Tensor = self.actor.mu(self.features(self.actor, obs))
        return actions


class DDPG(TD3, stable_baselines3.DDPG):
    """Deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971): ``stable_baselines3.DDPG`` with the fast
    update.
    """
