"""The update step shared by SAC and TQC: a squashed Gaussian actor and a learnt entropy coefficient."""

import math
from collections.abc import Callable
from typing import Any

import torch as th
from torch import nn

from rlher.algos.actor_critic import ActorCritic, Draws
from rlher.algos.fast_update import Batch, Losses
from rlher.algos.fused_adam import FusedAdam

LOG_STD_MIN, LOG_STD_MAX = -20, 2
SQUASH_EPSILON = 1e-6  # Stable-Baselines3's value; keeps the logarithm of the squashing finite
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class MaximumEntropy(ActorCritic):
    """Soft actor-critic's actor and entropy coefficient (Haarnoja et al. 2018, arXiv:1812.05905)."""

    target_update_interval: int
    ent_coef_optimizer: th.optim.Adam | None
    log_ent_coef: th.Tensor | None
    ent_coef_tensor: th.Tensor
    target_entropy: Any

    def optimizers(self) -> list[th.optim.Optimizer]:
        """Return the optimizers, including the entropy coefficient's if it is learnt."""
        own = [self.ent_coef_optimizer] if self.ent_coef_optimizer is not None else []
        return [*super().optimizers(), *own]

    def setup_update(self) -> None:
        """Batch the critics' weights and create the optimizer steps, including the entropy coefficient's."""
        super().setup_update()
        if self.ent_coef_optimizer is not None and self.log_ent_coef is not None:
            self._ent_coef_step = FusedAdam(self.ent_coef_optimizer, [self.log_ent_coef])

    def draw(self, batch: Batch) -> Draws:
        """Return the noise of the actions and of the next actions, the entropy coefficient, and the target critics."""
        noise, next_noise = th.randn_like(batch.actions), th.randn_like(batch.actions)
        return noise, next_noise, self._entropy_coefficient(), *self.draw_target_critics()

    def _entropy_coefficient(self) -> th.Tensor:
        return self.ent_coef_tensor if self.log_ent_coef is None else self.log_ent_coef.detach().exp()

    def update_actor(self, batch: Batch, draws: Draws, step: int) -> Losses:
        """Update the actor, the entropy coefficient and, every ``target_update_interval`` steps, the targets."""
        losses, log_prob = self.step_actor(batch, draws)
        losses["ent_coef"] = draws[2]
        if self.ent_coef_optimizer is not None and self.log_ent_coef is not None:
            # The loss is -log_ent_coef * (log_prob + target_entropy); its gradient needs no autograd.
            gradient = -(log_prob + self.target_entropy)
            losses["ent_coef_loss"] = self.log_ent_coef.detach() * gradient
            self._ent_coef_step.step([gradient.reshape(1)])
        if step % self.target_update_interval == 0:
            self.update_targets_if("update")
        return losses

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return the actor's loss, and the mean log-probability of its actions."""
        noise, _, ent_coef, *_ = draws
        actions, log_prob = self.action_and_log_prob(batch.obs, noise)
        value = self.actor_value(self.q_values_of(batch, actions))
        return (ent_coef * log_prob - value).mean(), log_prob.mean()

    def action_and_log_prob(self, obs: th.Tensor, noise: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Return the actor's actions for the given noise, in (-1, 1), and their log-probabilities (batch, 1)."""
        mean, log_std = self._gaussian(obs, self.evaluate)
        actions = th.tanh(mean + noise * log_std.exp())
        # Log-density of a Gaussian at mean + noise * std, minus the log-determinant of the squashing.
        log_prob = -(0.5 * noise**2 + log_std + HALF_LOG_2PI + th.log(1 - actions**2 + SQUASH_EPSILON))
        return actions, log_prob.sum(dim=1, keepdim=True)

    def _gaussian(self, obs: th.Tensor, evaluate: Callable = nn.Module.__call__) -> tuple[th.Tensor, th.Tensor]:
        latent = evaluate(self.actor.latent_pi, obs)
        mean, log_std = (evaluate(layer, latent) for layer in (self.actor.mu, self.actor.log_std))
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return the mean action, or a sampled one."""
        mean, log_std = self._gaussian(obs)
        return th.tanh(mean if deterministic else mean + th.randn_like(mean) * log_std.exp())
