"""The skeleton of the update step that our algorithms share."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BaseModel

from rlher.algos.compilation import compiled, leave_compiler_alone
from rlher.algos.features import features_of, is_plain, reader_of
from rlher.algos.malloc import keep_freed
from rlher.algos.options import Options

Losses = dict[str, th.Tensor]


class Batch(NamedTuple):
    """What a loss reads.

    :param obs: (batch, features).
    :param actions: (batch, action_dim), or (batch, 1) numbers of discrete ones.
    :param next_obs: (batch, features).
    :param rewards: (batch, 1), of one step or several.
    :param discounts: (batch, 1) of the value of ``next_obs``; 0 where the episode ended.
    :param weights: (batch, 1) importance weights, None where all count the same.
    """

    obs: th.Tensor
    actions: th.Tensor
    next_obs: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor
    weights: th.Tensor | None

    def mean(self, losses: th.Tensor) -> th.Tensor:
        """Average losses (…, batch, any) over everything, each transition by its importance weight."""
        return losses.mean() if self.weights is None else (losses * self.weights).mean()


class OwnUpdate(OffPolicyAlgorithm):
    """Stable-Baselines3's algorithm with our own ``train``: same mathematics, same files, less work.

    What it saves: observations are joined once, not once a network; networks of one shape are evaluated together;
    gradients nobody reads are not computed; one fused optimiser call and one target update for all parameters.

    Where a policy is not made of plain layers on plain observations (images, gSDE, a learnt or shared features
    extractor), Stable-Baselines3's own ``train`` runs.

    :param options: what Stable-Baselines3 has not, see :class:`~rlher.algos.options.Options`.
    """

    options: Options = Options()

    def __init__(self, *args: Any, options: Options | None = None, **kwargs: Any) -> None:
        self.options = options or Options()
        if not self.options.compile:
            leave_compiler_alone()
        super().__init__(*args, **kwargs)

    # ------------------------------------------------------------------------------- what an algorithm says

    def networks(self) -> list[BaseModel]:
        """List the networks that read observations; the first one acts."""
        raise NotImplementedError

    def optimizers(self) -> list[th.optim.Optimizer]:
        """List the optimisers."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Take over the networks that were just built."""
        raise NotImplementedError

    def update(self, batch: Batch, step: int) -> tuple[Losses, th.Tensor]:
        """Do one update.

        :param step: number of this update within its round.
        :return: what to log by name, scalars, and the TD errors (…, batch, any).
        """
        raise NotImplementedError

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return actions (batch, …) for (batch, features); continuous ones in [-1, 1]."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ the skeleton

    def _setup_model(self) -> None:
        super()._setup_model()
        saved = set(self.__dict__)
        self._owned = not self.use_sde and all(is_plain(network) for network in self.networks())
        if self._owned:
            keep_freed()
            acting = self.networks()[0]
            self._features, self._read = features_of(acting), reader_of(acting)
            # Every layer here does the same in training and in evaluation: no step needs to walk through all of them.
            self.policy.set_training_mode = _stay  # type: ignore[method-assign]
            self.prepare()
        elif self.options != Options():
            raise ValueError("options need a policy of plain layers, without gSDE or a learnt features extractor.")
        self._unsaved = ["options", "_unsaved", *(set(self.__dict__) - saved)]

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update ``gradient_steps`` times on batches of ``batch_size`` transitions."""
        if not self._owned:
            super().train(gradient_steps, batch_size)
            return
        self._update_learning_rate(self.optimizers())
        history: dict[str, list[th.Tensor]] = defaultdict(list)
        for step in range(gradient_steps):
            samples: Any = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)  # type: ignore[union-attr]
            self._n_updates += 1
            losses, errors = self.update(self._batch(samples), step)
            for name, loss in losses.items():
                history[name].append(loss)
            if getattr(samples, "indices", None) is not None:
                self.replay_buffer.update_priorities(samples.indices, _per_transition(errors))  # type: ignore[union-attr]
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in history.items():
            self.logger.record(f"train/{name}", sum(value.item() for value in values) / len(values))

    def _batch(self, samples: Any) -> Batch:
        discounts = self.gamma if samples.discounts is None else samples.discounts
        return Batch(
            self._features(samples.observations),
            samples.actions,
            self._features(samples.next_observations),
            samples.rewards,
            (1 - samples.dones) * discounts,
            getattr(samples, "weights", None),
        )

    def bounded(self, values: th.Tensor) -> th.Tensor:
        """Clamp values of the target network to the bounds there are."""
        bounds = self.options.target_bounds
        return values if bounds is None else values.clamp(*bounds)

    def phase(self, function: Callable) -> Callable:
        """Return a part of the update, compiled where the options say so; it must change nothing in place."""
        return compiled(function, graph=self.device.type == "cuda") if self.options.compile else function

    def precision(self) -> AbstractContextManager:
        """Return the context in which losses are computed."""
        # Casts are not cached: the weights they are made from change between two updates.
        low = self.options.precision == "bf16"
        return th.autocast(self.device.type, th.bfloat16, enabled=low, cache_enabled=False)

    # --------------------------------------------------------------------------------------------- the rollout

    def predict(
        self,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return actions as Stable-Baselines3 does, by a shorter way where observations are plain vectors."""
        if not self._owned or self._read is None or not isinstance(observation, dict):
            return super().predict(observation, state, episode_start, deterministic)
        features = self._read(observation)
        with th.no_grad():
            actions = self.act(th.from_numpy(features).to(self.device), deterministic).cpu().numpy()
        if self.policy.squash_output:
            actions = self.policy.unscale_action(actions)
        shape: tuple[int, ...] = self.action_space.shape or ()
        key, space = next(iter(self.observation_space.spaces.items()))  # type: ignore[attr-defined]
        stacked = observation[key].ndim > len(space.shape)
        return actions.reshape((-1, *shape) if stacked else shape), state

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *self._unsaved]


def _stay(mode: bool) -> None:
    """Leave the mode as it is."""


def _per_transition(errors: th.Tensor) -> th.Tensor:
    """Average absolute TD errors (…, batch, any) of several critics to (batch,)."""
    flat = errors.detach().abs()
    return flat.reshape(-1, *flat.shape[-2:]).mean(dim=(0, 2))


def follow(targets: list[th.Tensor], sources: list[th.Tensor], tau: float) -> None:
    """Move every target network's tensors towards their source by the share ``tau``."""
    with th.no_grad():
        th._foreach_lerp_(targets, sources, tau)
