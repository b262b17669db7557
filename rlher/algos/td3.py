"""Twin delayed DDPG, and DDPG, which is TD3 without its three additions."""

import numpy as np
import stable_baselines3
import torch as th
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.policies import BaseModel

from rlher.algos.actor_critic import ActorCritic, Draws
from rlher.algos.fast_update import Batch, Losses, follow


class TD3(ActorCritic, stable_baselines3.TD3):
    """Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), as ``stable_baselines3.TD3`` with our update step."""

    def networks(self) -> list[BaseModel]:
        """List actors and critics."""
        return [self.actor, self.actor_target, self.critic, self.critic_target]

    def prepare(self) -> None:
        """Lay the critics' weights side by side, and list the target actor's.

        :raises ValueError: ``options.target_critics`` asks for more critics than there are.
        """
        super().prepare()
        self._target_weights: list[th.Tensor] = list(self.actor_target.parameters())

    def draw(self, batch: Batch) -> Draws:
        """Draw the noise of the target's actions, and its critics."""
        noise = th.empty_like(batch.actions).normal_(0, self.target_policy_noise)
        return noise.clamp_(-self.target_noise_clip, self.target_noise_clip), *self.draw_subset()

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Squared TD error, summed over the critics; the target is the least of the target critics."""
        noise, *subset = draws
        with th.no_grad():
            actions = (self.actor_target.mu(batch.next_obs).float() + noise).clamp(-1, 1)
            value = self.next_values(batch, actions, tuple(subset)).amin(dim=0)
            target = batch.rewards + batch.discounts * value
        errors = self.values(batch) - target
        return len(errors) * batch.mean(errors**2), errors

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return the value of the actor's actions, negated, and the weighted mean of their squares.

        The first critic judges, or all of them where the target is the least of a few (REDQ).
        """
        actions = self.actor.mu(batch.obs).float()
        judges = slice(0, 1) if self.options.target_critics is None else None
        effort = self.options.action_l2 * (actions**2).mean()
        return effort - self.values_of(batch, actions, judges).mean(), effort

    def update_actor(self, batch: Batch, draws: Draws, step: int) -> Losses:
        """Update the actor and all target networks, every ``policy_delay`` updates."""
        if self._n_updates % self.policy_delay:
            return {}
        loss, _ = self.descend_actor(batch, draws)
        self.follow_critics()
        follow(self._target_weights, self._actor_weights, self.tau)
        return {"actor_loss": loss}

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return the actor's action."""
        return self.actor.mu(obs)

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add uniform actions to Stable-Baselines3's exploration, see ``options.random_action``."""
        actions, stored = super()._sample_action(learning_starts, action_noise, n_envs)
        if self.options.random_action == 0:
            return actions, stored
        for index in np.flatnonzero(np.random.random(n_envs) < self.options.random_action):
            actions[index] = self.action_space.sample()
            stored[index] = self.policy.scale_action(actions[index])
        return actions, stored


class DDPG(TD3, stable_baselines3.DDPG):
    """Deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971), as ``stable_baselines3.DDPG`` with our
    update step.
    """
