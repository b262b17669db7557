"""Soft actor-critic.

An update, as :meth:`OffPolicyAlgorithm.train` and :meth:`SACBase.update` do it::

    samples = replay_buffer.sample(batch_size)
    batch = make_batch(samples)           # tensors, and the random numbers of the losses
    critic_step.take(batch)               # critic_loss: squared TD error of each critic
    actor_step.take(batch)                # actor_loss: ent_coef * log_prob - minimum of the critics; plus bc_loss
    ent_coef_step.take(log_prob)          # ent_coef_loss: moves the mean log_prob to -target_entropy
    update_targets()                      # target critics move towards the critics

A step is one of the optimizer along the gradient of a loss, see :mod:`rlher.algos.optimizer_steps`.
"""

import math
from typing import Any

import stable_baselines3
import torch as th
from stable_baselines3.common.type_aliases import PyTorchObs

from rlher.algos.actor_critic import ActorCritic
from rlher.algos.networks import apply_network
from rlher.algos.optimizer_steps import OptimizerStep
from rlher.algos.update_batch import LoggedValues, UpdateBatch
from rlher.her.replay_buffer import HerReplayBufferSamples

LOG_STD_MIN, LOG_STD_MAX = -20, 2
SQUASH_EPSILON = 1e-6  # as in Stable-Baselines3; keeps the logarithm of the squashing finite
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class SACBase(ActorCritic):
    """SAC's update of critics, actor and entropy coefficient.

    TQC shares this class, because ``sb3_contrib.TQC`` does not extend ``stable_baselines3.SAC``.
    """

    target_update_interval: int
    ent_coef_optimizer: Any
    ent_coef_step: OptimizerStep
    log_ent_coef: th.Tensor | None
    """None if the entropy coefficient is fixed; then there is no ``ent_coef_optimizer``."""
    ent_coef_tensor: th.Tensor
    target_entropy: Any

    def setup_update(self) -> None:
        """Set the optimizer step of the entropy coefficient too, if the coefficient is learnt."""
        super().setup_update()
        if self.log_ent_coef is not None:
            self.optimizers.append(self.ent_coef_optimizer)
            self.ent_coef_step = OptimizerStep(self.ent_coef_loss, self.ent_coef_optimizer)

    def update(self, batch: UpdateBatch, gradient_step: int) -> tuple[LoggedValues, th.Tensor]:
        """Update critics, actor, entropy coefficient and, every ``target_update_interval`` steps, the targets."""
        critic_loss, errors = self.critic_step.take(batch)
        _, logged = self.actor_step.take(batch)
        logged |= {"critic_loss": critic_loss, "ent_coef": batch.ent_coef}
        if self.log_ent_coef is not None:
            logged["ent_coef_loss"], _ = self.ent_coef_step.take(logged["log_prob"])
        if gradient_step % self.target_update_interval == 0:
            self.update_targets()
        return logged, errors

    def make_batch(self, samples: HerReplayBufferSamples) -> UpdateBatch:
        """Return a batch with the noise of actions and next actions, and the entropy coefficient."""
        batch = super().make_batch(samples)
        return batch._replace(
            noise=th.randn_like(batch.actions),
            next_noise=th.randn_like(batch.actions),
            ent_coef=self.ent_coef_tensor if self.log_ent_coef is None else self.log_ent_coef.detach().exp(),
        )

    def critic_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, th.Tensor]:
        """Return half the squared TD error, summed over the critics, and the TD errors.

        The target is the minimum of the target critics minus the entropy term.
        """
        with th.no_grad():
            actions, log_prob = self.action_and_log_prob(batch.next_obs, batch.next_noise)
            value = self.target_q_values(batch.next_obs, actions).amin(dim=0) - batch.ent_coef * log_prob
            target = batch.rewards + batch.discounts * value
        errors = self.q_values(batch.obs, batch.actions) - target
        return 0.5 * len(errors) * batch.weighted_mean(errors**2), errors

    def actor_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, LoggedValues]:
        """Return the actor's loss, and the mean log-probability of its actions, by which ``ent_coef`` is learnt."""
        actions, log_prob = self.action_and_log_prob(batch.obs, batch.noise)
        value = self.aggregate_q_values(self.q_values(batch.obs, actions))
        return (batch.ent_coef * log_prob - value).mean(), {"log_prob": log_prob.mean()}

    def ent_coef_loss(self, log_prob: th.Tensor) -> tuple[th.Tensor, LoggedValues]:
        """Return the loss of the logarithm of the entropy coefficient, which moves ``log_prob`` to its target."""
        assert self.log_ent_coef is not None
        return -(self.log_ent_coef * (log_prob + self.target_entropy)), {}

    def aggregate_q_values(self, values: th.Tensor) -> th.Tensor:
        """Return the minimum over the critics."""
        # Not `amin`, which divides the gradient among equal values. Compiled code would repeat this division for every
        # weight of the last layer.
        return values.min(dim=0).values

    def action_and_log_prob(self, obs: PyTorchObs, noise: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Return the actor's actions for the given noise, in (-1, 1), and their log-probabilities (batch, 1)."""
        mean, log_std = self._gaussian(obs, self.bf16)
        actions = th.tanh(mean + noise * log_std.exp())
        # Log-density of a Gaussian at mean + noise * std, minus the log-determinant of the squashing.
        log_prob = -(0.5 * noise**2 + log_std + HALF_LOG_2PI + th.log(1 - actions**2 + SQUASH_EPSILON))
        return actions, log_prob.sum(dim=1, keepdim=True)

    def act(self, obs: PyTorchObs, deterministic: bool) -> th.Tensor:
        """Return the mean action, or a sampled one."""
        mean, log_std = self._gaussian(obs, bf16=False)
        return th.tanh(mean if deterministic else mean + th.randn_like(mean) * log_std.exp())

    def _gaussian(self, obs: PyTorchObs, bf16: bool) -> tuple[th.Tensor, th.Tensor]:
        """Return mean and logarithm of the standard deviation of the actions before squashing."""
        latent = apply_network(self.actor.latent_pi, self.features(self.actor, obs), bf16)
        log_std = apply_network(self.actor.log_std, latent, bf16)
        return apply_network(self.actor.mu, latent, bf16), log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)


class SAC(SACBase, stable_baselines3.SAC):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905): ``stable_baselines3.SAC`` with the fast update."""
