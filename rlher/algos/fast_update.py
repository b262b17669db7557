"""The faster update step that the algorithms share."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch as th
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.type_aliases import RolloutReturn
from stable_baselines3.common.vec_env import VecEnv
from torch import nn
from torch.nn import functional as F

from rlher.algos import matmul
from rlher.algos.compilation import compile_with_fallback
from rlher.algos.features import has_batchable_layers, make_feature_fn, make_observation_fn
from rlher.algos.lazy_compiler import skip_compiler_import
from rlher.algos.malloc import keep_freed_memory
from rlher.algos.options import Options
from rlher.algos.overlap import WorkWhileStepping

Losses = dict[str, th.Tensor]


class Batch(NamedTuple):
    """The transitions of one update, as tensors.

    :param obs: (batch, features).
    :param actions: (batch, action_dim), or (batch, 1) indices of discrete actions.
    :param next_obs: (batch, features).
    :param rewards: (batch, 1), of one step or several.
    :param discounts: (batch, 1) of the value of ``next_obs``; 0 where the episode ended.
    :param weights: (batch, 1) importance weights; None: all equal.
    :param demonstrations: observations and actions of the demonstrations in it; None: nothing is cloned.
    """

    obs: th.Tensor
    actions: th.Tensor
    next_obs: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor
    weights: th.Tensor | None
    demonstrations: tuple[th.Tensor, th.Tensor] | None = None

    def mean(self, losses: th.Tensor) -> th.Tensor:
        """Return the mean of losses (…, batch, any), each transition weighted by its importance."""
        return losses.mean() if self.weights is None else (losses * self.weights).mean()


class FastUpdate(OffPolicyAlgorithm):
    """Stable-Baselines3's algorithm with our own ``train``: same mathematics, same files, less work.

    Observations are concatenated once, not once per network; networks of one shape are evaluated together; unused
    gradients are not computed; optimizer step and target update are one call each for all parameters.

    Policies with images, gSDE, or a learnt or shared features extractor are trained by Stable-Baselines3's own
    ``train``.

    :param options: settings that Stable-Baselines3 does not have, see :class:`~rlher.algos.options.Options`.
    """

    options: Options = Options()
    postponed: tuple[int, int] | None = None
    """Updates and batch size of a ``train`` call that is done during the next step, with ``options.overlap``."""

    def __init__(self, *args: Any, options: Options | None = None, **kwargs: Any) -> None:
        self.options = options or Options()
        if not self.options.compile:
            skip_compiler_import()
        super().__init__(*args, **kwargs)

    # ------------------------------------------------------------------------- defined by each algorithm

    def networks(self) -> list[BaseModel]:
        """Return the networks that read observations; the first one selects actions."""
        raise NotImplementedError

    def optimizers(self) -> list[th.optim.Optimizer]:
        """Return the optimizers."""
        raise NotImplementedError

    def setup_update(self) -> None:
        """Set up the state that ``update`` needs, after the networks are built."""
        raise NotImplementedError

    def update(self, batch: Batch, step: int) -> tuple[Losses, th.Tensor]:
        """Do one update.

        :param step: index of this update among the gradient steps of a ``train`` call.
        :return: scalars to log, by name, and the TD errors (…, batch, any).
        """
        raise NotImplementedError

    def end_round(self) -> None:
        """Do what is due after the updates of a ``train`` call; by default nothing."""

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return actions (batch, …) for (batch, features); continuous ones in [-1, 1]."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------- the update step

    def _setup_model(self) -> None:
        super()._setup_model()
        saved = set(self.__dict__)
        self._fast = not self.use_sde and all(has_batchable_layers(network) for network in self.networks())
        if self._fast:
            keep_freed_memory()
            policy_network = self.networks()[0]
            self._features, self._read = make_feature_fn(policy_network), make_observation_fn(policy_network)
            # No batchable layer depends on the training mode, so setting it in every step would only cost time.
            self.policy.set_training_mode = _keep_training_mode  # type: ignore[method-assign]
            self.setup_update()
        elif replace(self.options, overlap=False) != Options():
            raise ValueError(
                "options other than overlap are not supported with gSDE or a learnt features extractor; leave them out."
            )
        self._overlapped: WorkWhileStepping | None = None
        self._unsaved = ["options", "postponed", "_unsaved", *(set(self.__dict__) - saved)]

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update ``gradient_steps`` times on batches of ``batch_size`` transitions.

        With ``options.overlap`` this is done during the next step of the environments, or at the end of ``learn``.
        """
        if self.options.overlap:
            self.postponed = gradient_steps, batch_size
        else:
            self._train(gradient_steps, batch_size)

    def train_postponed(self) -> None:
        """Do the updates that a call of ``train`` postponed, if any."""
        if self.postponed is not None:
            (gradient_steps, batch_size), self.postponed = self.postponed, None
            self._train(gradient_steps, batch_size)

    def _train(self, gradient_steps: int, batch_size: int) -> None:
        if not self._fast:
            super().train(gradient_steps, batch_size)
            return
        self._update_repeatedly(gradient_steps, lambda: self._sample(batch_size))

    def _sample(self, batch_size: int) -> Any:
        return self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)  # type: ignore[union-attr]

    def _update_repeatedly(self, gradient_steps: int, sample: Callable[[], Any]) -> None:
        """Update on batches that a function draws, and log the mean of each loss."""
        self._update_learning_rate(self.optimizers())
        history: dict[str, list[th.Tensor]] = defaultdict(list)
        for step in range(gradient_steps):
            samples = sample()
            self._n_updates += 1
            losses, errors = self.update(self._batch(samples), step)
            for name, loss in losses.items():
                history[name].append(loss)
            if getattr(samples, "indices", None) is not None:
                self.replay_buffer.update_priorities(samples.indices, _error_per_transition(errors))  # type: ignore[union-attr]
        self.end_round()
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in history.items():
            self.logger.record(f"train/{name}", sum(value.item() for value in values) / len(values))

    def _batch(self, samples: Any) -> Batch:
        discounts = self.gamma if samples.discounts is None else samples.discounts
        obs, places = self._features(samples.observations), getattr(samples, "demonstrations", None)
        return Batch(
            obs,
            samples.actions,
            self._features(samples.next_observations),
            samples.rewards,
            (1 - samples.dones) * discounts,
            getattr(samples, "weights", None),
            None if places is None or not self.clones else (obs[places], samples.actions[places]),
        )

    @property
    def clones(self) -> bool:
        """Whether the actor's loss contains a cloning loss."""
        return self.options.bc_weight > 0

    def clamp_target(self, values: th.Tensor) -> th.Tensor:
        """Return values of the target network, clamped to ``options.target_bounds``."""
        bounds = self.options.target_bounds
        return values if bounds is None else values.clamp(*bounds)

    def compile_if_enabled(self, function: Callable) -> Callable:
        """Return ``function``, compiled if ``options.compile`` is set; it must change nothing in place."""
        if not self.options.compile:
            return function
        return compile_with_fallback(function, cuda_graph=self.device.type == "cuda")

    def evaluate(self, network: nn.Module, x: th.Tensor) -> th.Tensor:
        """Return a network's output in a loss, in float32, see ``options.onednn`` and ``options.precision``.

        :param x: (batch, inputs).
        """
        if not self.options.onednn and self.options.precision == "float32":
            return network(x)
        layers = [network] if isinstance(network, nn.Linear) else [*network.children()]
        linear = matmul.linear if self.options.onednn else F.linear
        return matmul.evaluate(layers, x, network.parameters(), linear).float()

    def autocast(self) -> AbstractContextManager:
        """Return the context in which losses are computed, see ``options.precision``."""
        # Without the cache: the weights that it would keep in low precision change between two updates.
        low = self.options.precision == "bf16"
        return th.autocast(self.device.type, th.bfloat16, enabled=low, cache_enabled=False)

    # --------------------------------------------------------------------------------------- the rollout

    def learn(self, *args: Any, **kwargs: Any) -> Self:
        """Learn as Stable-Baselines3 does; updates that are still due in the end are done after all callbacks."""
        super().learn(*args, **kwargs)
        self.train_postponed()
        return self

    def collect_rollouts(self, env: VecEnv, *args: Any, **kwargs: Any) -> RolloutReturn:
        """Collect experience as Stable-Baselines3 does; with ``options.overlap``, update during the first step.

        The actions of that step are chosen before those updates, so the policy that acts is one ``train`` call old.

        :raises ValueError: with ``options.overlap``, the buffer calls ``compute_reward`` in another process.
        """
        if self.options.overlap:
            if self._overlapped is None or self._overlapped.venv is not env:
                if isinstance(buffer := self.replay_buffer, HerReplayBuffer) and not getattr(
                    buffer, "samples_while_env_steps", False
                ):
                    raise ValueError(
                        "options.overlap samples while environments in other processes step, so compute_reward must "
                        "run in this process; pass it to rlher.her.HerReplayBuffer."
                    )
                self._overlapped = WorkWhileStepping(env, self.train_postponed)
            env = self._overlapped
        return super().collect_rollouts(env, *args, **kwargs)

    def predict(
        self,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return the same actions as Stable-Baselines3, faster if observations are dictionaries of vectors."""
        if not self._fast or self._read is None or not isinstance(observation, dict):
            return super().predict(observation, state, episode_start, deterministic)
        features = self._read(observation)
        with th.no_grad():
            actions = self.act(th.from_numpy(features).to(self.device), deterministic).cpu().numpy()
        if self.policy.squash_output:
            actions = self.policy.unscale_action(actions)
        shape: tuple[int, ...] = self.action_space.shape or ()
        key, space = next(iter(self.observation_space.spaces.items()))  # type: ignore[attr-defined]
        is_batch = observation[key].ndim > len(space.shape)
        return actions.reshape((-1, *shape) if is_batch else shape), state

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *self._unsaved]


def _keep_training_mode(mode: bool) -> None:
    """Replace ``policy.set_training_mode`` by a function that does nothing."""


def _error_per_transition(errors: th.Tensor) -> th.Tensor:
    """Return the mean absolute TD error (batch,) of several critics' errors (…, batch, any)."""
    flat = errors.detach().abs()
    return flat.reshape(-1, *flat.shape[-2:]).mean(dim=(0, 2))


def polyak_update(params: list[th.Tensor], target_params: list[th.Tensor], tau: float) -> None:
    """Move each target parameter towards its source by the share ``tau``.

    ``stable_baselines3.common.utils.polyak_update`` in one call for all tensors.
    """
    with th.no_grad():
        th._foreach_lerp_(target_params, params, tau)
