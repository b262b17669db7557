"""Base class of the algorithms with an actor and Q critics, with behavioural cloning of demonstrations."""

from typing import Any

import torch as th
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.utils import get_parameters_by_name

from rlher.algos.networks import apply_network
from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.algos.optimizer_steps import OptimizerStep, polyak_update
from rlher.algos.update_batch import LoggedValues, UpdateBatch
from rlher.her.replay_buffer import HerReplayBufferSamples


class ActorCritic(OffPolicyAlgorithm):
    """Gradients, optimizer steps and target networks of an actor and its critics.

    Each algorithm defines the two losses, and the order in which an update uses them.

    :param bc_weight: weight of the cloning loss in the actor's loss. The cloning loss is the mean squared distance
        between the actor's actions and the demonstrated actions of the batch (Nair et al. 2018, arXiv:1709.10089).
    :param q_filter: clone only actions that the critics value more than the actor's actions (arXiv:1709.10089).
    """

    actor: Any
    critic: Any
    critic_target: Any
    critic_step: OptimizerStep
    actor_step: OptimizerStep

    def __init__(self, *args: Any, bc_weight: float = 0.0, q_filter: bool = True, **kwargs: Any) -> None:
        self.bc_weight, self.q_filter = bc_weight, q_filter
        super().__init__(*args, **kwargs)

    # ------------------------------------------------------------------------- defined by each algorithm

    def critic_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, th.Tensor]:
        """Return the critics' loss, a scalar, and their TD errors (critics, batch, any)."""
        raise NotImplementedError

    def actor_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, LoggedValues]:
        """Return the actor's loss, and further scalars by name. They are logged, and ``update`` may use them."""
        raise NotImplementedError

    def aggregate_q_values(self, values: th.Tensor) -> th.Tensor:
        """Reduce the critics' values (critics, batch, outputs) to the value (batch, 1) that the actor maximises."""
        raise NotImplementedError

    def target_networks(self) -> list[tuple[th.nn.Module, th.nn.Module]]:
        """Return each network that has a target network, and its target network."""
        return [(self.critic, self.critic_target)]

    # ------------------------------------------------------------------------------- parts of an update

    def setup_update(self) -> None:
        """Set what the target networks follow, and the optimizer steps of both losses."""
        self.target_params = [
            (list(network.parameters()), list(target.parameters())) for network, target in self.target_networks()
        ]
        self.target_batch_norm_stats = [
            (get_parameters_by_name(network, ["running_"]), get_parameters_by_name(target, ["running_"]))
            for network, target in self.target_networks()
        ]
        self.optimizers = [self.critic.optimizer, self.actor.optimizer]
        self.critic_step = OptimizerStep(self.critic_loss, self.critic.optimizer, self.compiles_losses)
        self.actor_step = OptimizerStep(self.actor_and_bc_loss, self.actor.optimizer, self.compiles_losses)

    def update_targets(self) -> None:
        """Move the target networks towards their networks, and copy running statistics of BatchNorm (SB3 #996)."""
        for params, target_params in self.target_params:
            polyak_update(params, target_params, self.tau)
        for stats, target_stats in self.target_batch_norm_stats:
            polyak_update(stats, target_stats, 1.0)

    # ------------------------------------------------------------------------------- parts of the losses

    def target_q_values(self, obs: PyTorchObs, actions: th.Tensor) -> th.Tensor:
        """Return the clamped target critics' values of actions (critics, batch, outputs); without gradients."""
        features = self.features(self.critic_target, obs)
        return self.clamp_target_q(self._evaluate(self.critic_target.q_networks, features, actions))

    def q_values(self, obs: PyTorchObs, actions: th.Tensor, n_critics: int | None = None) -> th.Tensor:
        """Return the critics' values of actions: (critics, batch, outputs).

        :param n_critics: evaluate only the first critics.
        """
        features = self.features(self.critic, obs)
        if self.critic.share_features_extractor:  # a shared one learns from the actor's loss alone
            features = features.detach()
        return self._evaluate(self.critic.q_networks[:n_critics], features, actions)

    def _evaluate(self, networks: Any, features: th.Tensor, actions: th.Tensor) -> th.Tensor:
        inputs = th.cat((features, actions), dim=1)
        return th.stack([apply_network(network, inputs, self.bf16) for network in networks])

    # ------------------------------------------------------------------------------------- demonstrations

    def make_batch(self, samples: HerReplayBufferSamples) -> UpdateBatch:
        """Return a batch with the demonstrations to clone, if any."""
        batch = super().make_batch(samples)
        selected = samples.demonstration_slice
        if selected is None or not self.bc_weight:
            return batch
        obs = self.join_obs({key: values[selected] for key, values in samples.observations.items()})
        return batch._replace(demonstrations=(obs, samples.actions[selected]))

    def pretrain(self, updates: int, batch_size: int) -> None:
        """Update the actor by behavioural cloning of the demonstrations.

        The demonstrations keep their original goals, because virtual goals lower the success rate.

        :raises RuntimeError: the replay buffer has no demonstrations.
        """

        def bc_loss(obs: PyTorchObs, actions: th.Tensor) -> tuple[th.Tensor, LoggedValues]:
            return self.bc_loss(obs, actions, q_filter=False), {}

        step = OptimizerStep(bc_loss, self.actor.optimizer)
        self._update_learning_rate([self.actor.optimizer])
        self.policy.set_training_mode(True)
        for _ in range(updates):
            samples = self.replay_buffer.sample_demonstrations(batch_size, self._vec_normalize_env)
            step.take(self.join_obs(samples.observations), samples.actions)

    def actor_and_bc_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, LoggedValues]:
        """Return the actor's loss plus ``bc_weight`` times the cloning loss, and both by name."""
        loss, logged = self.actor_loss(batch)
        logged = {"actor_loss": loss, **logged}
        if batch.demonstrations is not None:
            logged["bc_loss"] = bc_loss = self.bc_loss(*batch.demonstrations, q_filter=self.q_filter)
            loss = loss + self.bc_weight * bc_loss
        return loss, logged

    def bc_loss(self, obs: PyTorchObs, actions: th.Tensor, q_filter: bool) -> th.Tensor:
        """Return the cloning loss of demonstrations.

        :param q_filter: leave out actions unless the critics value them more than the actor's actions.
        """
        actor_actions = self.act(obs, deterministic=True)
        distances = ((actor_actions - actions) ** 2).sum(dim=1, keepdim=True)
        if q_filter:
            with th.no_grad():
                value = self.aggregate_q_values(self.q_values(obs, actions))
                actor_value = self.aggregate_q_values(self.q_values(obs, actor_actions))
            distances = distances * (value > actor_value)
        return distances.mean()
