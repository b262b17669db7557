"""Deep Q-network."""

import numpy as np
import stable_baselines3
import torch as th
from stable_baselines3.common.type_aliases import PyTorchObs
from torch.nn import functional as F

from rlher.algos.networks import apply_network
from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.algos.optimizer_steps import OptimizerStep
from rlher.algos.update_batch import LoggedValues, UpdateBatch


class DQN(OffPolicyAlgorithm, stable_baselines3.DQN):
    """Deep Q-network (Mnih et al. 2015): ``stable_baselines3.DQN`` with the fast update."""

    def setup_update(self) -> None:
        """Set the optimizer step, with clipped gradients."""
        optimizer = self.policy.optimizer
        self.optimizers = [optimizer]
        self.step = OptimizerStep(self.loss, optimizer, self.compiles_losses, self.max_grad_norm)

    def update(self, batch: UpdateBatch, gradient_step: int) -> tuple[LoggedValues, th.Tensor]:
        """Take one optimizer step. Stable-Baselines3 updates the target network during rollouts."""
        loss, errors = self.step.take(batch)
        return {"loss": loss}, errors

    def loss(self, batch: UpdateBatch) -> tuple[th.Tensor, th.Tensor]:
        """Return the Huber loss and the TD errors. The target is the target network's maximum over actions."""
        with th.no_grad():
            next_features = self.features(self.q_net_target, batch.next_obs)
            next_values = apply_network(self.q_net_target.q_net, next_features, self.bf16)
            value = self.clamp_target_q(next_values).amax(dim=1, keepdim=True)
            target = batch.rewards + batch.discounts * value
        values = apply_network(self.q_net.q_net, self.features(self.q_net, batch.obs), self.bf16)
        values = values.gather(1, batch.actions.long())
        return batch.weighted_mean(F.smooth_l1_loss(values, target, reduction="none")), values - target

    def act(self, obs: PyTorchObs, deterministic: bool) -> th.Tensor:
        """Return greedy actions, or random ones with probability ``exploration_rate``, as Stable-Baselines3 does."""
        if not deterministic and np.random.rand() < self.exploration_rate:
            return th.as_tensor(np.array([self.action_space.sample() for _ in obs]))
        return self.q_net.q_net(self.features(self.q_net, obs)).argmax(dim=1)
