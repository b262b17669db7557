"""The skeleton of the algorithms with an actor and Q critics."""

from typing import Any

import torch as th
from stable_baselines3.common.policies import BaseModel

from rlher.algos.batched_mlp import Stack
from rlher.algos.fast_update import Batch, Losses, OwnUpdate, follow
from rlher.algos.fused_adam import Descent

Draws = tuple[th.Tensor, ...]


class ActorCritic(OwnUpdate):
    """One update: the critics towards their target, then the actor against the new critics, then the target networks.

    An algorithm gives the two losses and the random numbers in them. These are drawn beforehand, so that compiled and
    plain code use the same ones, in the order in which Stable-Baselines3 draws them.
    """

    actor: Any
    critic: Any
    critic_target: Any

    # ------------------------------------------------------------------------------- what an algorithm says

    def draw(self, batch: Batch) -> Draws:
        """Draw the random numbers of one update."""
        raise NotImplementedError

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return the critics' loss, a scalar, and their TD errors (critics, batch, any)."""
        raise NotImplementedError

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return the actor's loss and what else of it is to be known, scalars."""
        raise NotImplementedError

    def update_actor(self, batch: Batch, draws: Draws, step: int) -> Losses:
        """Update the actor and the target networks where they are due, and return what to log."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ the skeleton

    def networks(self) -> list[BaseModel]:
        """List actor and critics."""
        return [self.actor, self.critic, self.critic_target]

    def optimizers(self) -> list[th.optim.Optimizer]:
        """List the optimisers of actor and critics."""
        return [self.actor.optimizer, self.critic.optimizer]

    def prepare(self) -> None:
        """Lay the critics' weights side by side.

        :raises ValueError: ``options.target_critics`` asks for more critics than there are.
        """
        count = self.options.target_critics
        if count is not None and count > self.critic.n_critics:
            raise ValueError(f"target_critics={count} is more than the {self.critic.n_critics} critics there are.")
        self.critics = Stack(self.critic.q_networks)
        self.critics_target = Stack(self.critic_target.q_networks)
        self._actor_weights: list[th.Tensor] = list(self.actor.parameters())
        self._critic_descent = Descent(self.critic.optimizer, self.critics.parameters)
        self._actor_descent = Descent(self.actor.optimizer, self._actor_weights)
        self._critic_phase, self._actor_phase = self.phase(self._critic_gradients), self.phase(self._actor_gradients)

    def update(self, batch: Batch, step: int) -> tuple[Losses, th.Tensor]:
        """Update the critics, then what follows from them."""
        draws = self.draw(batch)
        loss, errors, gradients = self._critic_phase(batch, draws)
        self._critic_descent.step(self.critics.gradients(gradients))
        return {"critic_loss": loss, **self.update_actor(batch, draws, step)}, errors

    def descend_actor(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Update the actor, and return what its loss does."""
        loss, known, gradients = self._actor_phase(batch, draws)
        self._actor_descent.step(gradients)
        return loss, known

    def follow_critics(self) -> None:
        """Move the target critics towards the critics."""
        follow(self.critics_target.tensors, self.critics.tensors, self.tau)

    def _critic_gradients(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor, tuple[th.Tensor, ...]]:
        with self.precision():
            loss, errors = self.critic_loss(batch, draws)
        return loss.detach(), errors.detach(), th.autograd.grad(loss, self.critics.tensors)

    def _actor_gradients(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor, tuple[th.Tensor, ...]]:
        with self.precision():
            loss, known = self.actor_loss(batch, draws)
        return loss.detach(), known.detach(), th.autograd.grad(loss, self._actor_weights)

    # --------------------------------------------------------------------------------- what losses are made of

    def draw_subset(self) -> Draws:
        """Draw the critics that the target is made of, none where it is all of them."""
        count = self.options.target_critics
        return () if count is None else (th.randperm(self.critic.n_critics, device=self.device)[:count],)

    def next_values(self, batch: Batch, actions: th.Tensor, subset: Draws) -> th.Tensor:
        """Return what the target critics make of the next observations, bounded: (critics, batch, outputs)."""
        pairs = th.cat((batch.next_obs, actions), dim=1)
        chosen = subset[0] if subset else None
        return self.bounded(self.critics_target(pairs, chosen, frozen=True).float())

    def values(self, batch: Batch) -> th.Tensor:
        """Return what the critics make of the batch's actions: (critics, batch, outputs)."""
        return self.critics(th.cat((batch.obs, batch.actions), dim=1)).float()

    def values_of(self, batch: Batch, actions: th.Tensor, chosen: slice | None = None) -> th.Tensor:
        """Return what critics make of the actor's actions, their own weights left out of the gradient."""
        return self.critics(th.cat((batch.obs, actions), dim=1), chosen, frozen=True).float()
