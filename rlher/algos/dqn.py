"""Deep Q-network."""

from typing import Any

import numpy as np
import stable_baselines3
import torch as th
from stable_baselines3.common.policies import BaseModel
from torch.nn import functional as F

from rlher.algos.fast_update import Batch, Losses, OwnUpdate
from rlher.algos.fused_adam import Descent


class Discrete(OwnUpdate):
    """The skeleton of the algorithms with one network and discrete actions."""

    exploration_rate: float
    max_grad_norm: Any

    def loss(self, batch: Batch) -> tuple[th.Tensor, th.Tensor]:
        """Return the loss, a scalar, and the TD errors (batch, any)."""
        raise NotImplementedError

    def optimizers(self) -> list[th.optim.Optimizer]:
        """List the one optimiser."""
        return [self.policy.optimizer]

    def prepare(self) -> None:
        """List the weights."""
        self._weights = list(self.networks()[0].parameters())
        self._descent = Descent(self.policy.optimizer, self._weights)
        self._phase = self.phase(self._gradients)

    def update(self, batch: Batch, step: int) -> tuple[Losses, th.Tensor]:
        """Take a step along the clipped gradient; the target network follows in the rollout."""
        loss, errors, gradients = self._phase(batch)
        self._descent.step(gradients)
        return {"loss": loss}, errors

    def _gradients(self, batch: Batch) -> tuple[th.Tensor, th.Tensor, list[th.Tensor]]:
        with self.precision():
            loss, errors = self.loss(batch)
        gradients = th.autograd.grad(loss, self._weights)
        return loss.detach(), errors.detach(), clipped(gradients, self.max_grad_norm)

    def predict(
        self,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return greedy actions, or random ones with the probability of exploring."""
        if deterministic or np.random.rand() >= self.exploration_rate:
            return OwnUpdate.predict(self, observation, state, episode_start, deterministic=True)
        if self.policy.is_vectorized_observation(observation):
            first = next(iter(observation.values())) if isinstance(observation, dict) else observation
            return np.array([self.action_space.sample() for _ in range(len(first))]), state
        return np.array(self.action_space.sample()), state


def clipped(gradients: tuple[th.Tensor, ...], most: float | None) -> list[th.Tensor]:
    """Scale gradients down where their common norm is above ``most``, as ``clip_grad_norm_`` does."""
    if most is None:
        return list(gradients)
    norm = th.stack([gradient.norm() for gradient in gradients]).norm()
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    return [gradient * scale for gradient in gradients]


class DQN(Discrete, stable_baselines3.DQN):
    """Deep Q-network (Mnih et al. 2015), as ``stable_baselines3.DQN`` with our update step."""

    def networks(self) -> list[BaseModel]:
        """List network and target."""
        return [self.q_net, self.q_net_target]

    def loss(self, batch: Batch) -> tuple[th.Tensor, th.Tensor]:
        """Huber loss towards the greatest value of the target network."""
        with th.no_grad():
            value = self.bounded(self.q_net_target.q_net(batch.next_obs).float()).amax(dim=1, keepdim=True)
            target = batch.rewards + batch.discounts * value
        values = self.q_net.q_net(batch.obs).float().gather(1, batch.actions.long())
        return batch.mean(F.smooth_l1_loss(values, target, reduction="none")), values.detach() - target

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return the actions of the greatest values."""
        return self.q_net.q_net(obs).argmax(dim=1)
