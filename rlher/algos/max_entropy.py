"""What the maximum-entropy algorithms share: a squashed Gaussian actor and the coefficient of its entropy."""

import math
from typing import Any

import torch as th

from rlher.algos.actor_critic import ActorCritic, Draws
from rlher.algos.fast_update import Batch, Losses
from rlher.algos.fused_adam import Descent

LOG_STD_MIN, LOG_STD_MAX = -20, 2
SQUASH_EPSILON = 1e-6  # Stable-Baselines3's, keeps the logarithm of the squashing finite
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class MaximumEntropy(ActorCritic):
    """Soft actor-critic's actor and entropy coefficient (Haarnoja et al. 2018, arXiv:1812.05905)."""

    target_update_interval: int
    ent_coef_optimizer: th.optim.Adam | None
    log_ent_coef: th.Tensor | None
    ent_coef_tensor: th.Tensor
    target_entropy: Any

    def optimizers(self) -> list[th.optim.Optimizer]:
        """List the optimisers, the entropy coefficient's where it is learnt."""
        own = [self.ent_coef_optimizer] if self.ent_coef_optimizer is not None else []
        return [*super().optimizers(), *own]

    def prepare(self) -> None:
        """Lay the critics' weights side by side, and find the entropy coefficient's optimiser."""
        super().prepare()
        if self.ent_coef_optimizer is not None and self.log_ent_coef is not None:
            self._entropy_descent = Descent(self.ent_coef_optimizer, [self.log_ent_coef])

    def draw(self, batch: Batch) -> Draws:
        """Draw the noise of the actions, of the next actions, and the target's critics."""
        now, after = th.randn_like(batch.actions), th.randn_like(batch.actions)
        return now, after, self._entropy_coefficient(), *self.draw_subset()

    def _entropy_coefficient(self) -> th.Tensor:
        return self.ent_coef_tensor if self.log_ent_coef is None else self.log_ent_coef.detach().exp()

    def update_actor(self, batch: Batch, draws: Draws, step: int) -> Losses:
        """Update the actor, the entropy coefficient and, every ``target_update_interval`` steps, the targets."""
        loss, log_prob = self.descend_actor(batch, draws)
        losses = {"actor_loss": loss, "ent_coef": draws[2]}
        if self.ent_coef_optimizer is not None and self.log_ent_coef is not None:
            # The loss is -log_ent_coef * (log_prob + target_entropy), whose gradient needs no graph.
            slope = -(log_prob + self.target_entropy)
            losses["ent_coef_loss"] = self.log_ent_coef.detach() * slope
            self._entropy_descent.step([slope.reshape(1)])
        if step % self.target_update_interval == 0:
            self.follow_critics()
        return losses

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return the actor's loss, and the mean log-probability of its actions."""
        noise, _, ent_coef, *_ = draws
        actions, log_prob = self.explore(batch.obs, noise)
        value = self.actor_value(self.values_of(batch, actions))
        return (ent_coef * log_prob - value).mean(), log_prob.mean()

    def actor_value(self, values: th.Tensor) -> th.Tensor:
        """Return (batch, 1), what the actor makes greatest, from critics' values (critics, batch, outputs)."""
        raise NotImplementedError

    def explore(self, obs: th.Tensor, noise: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Return the actor's actions under that noise, in (-1, 1), and their log-probabilities (batch, 1)."""
        mean, log_std = self._gaussian(obs)
        actions = th.tanh(mean + noise * log_std.exp())
        # Of a Gaussian at mean + noise * std, and of the squashing.
        log_prob = -(0.5 * noise**2 + log_std + HALF_LOG_2PI + th.log(1 - actions**2 + SQUASH_EPSILON))
        return actions, log_prob.sum(dim=1, keepdim=True)

    def _gaussian(self, obs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        latent = self.actor.latent_pi(obs)
        mean, log_std = self.actor.mu(latent).float(), self.actor.log_std(latent).float()
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return the mean action, or one drawn at random."""
        mean, log_std = self._gaussian(obs)
        return th.tanh(mean if deterministic else mean + th.randn_like(mean) * log_std.exp())
