"""The fast update: ``train`` and ``predict`` replace Stable-Baselines3's, and each algorithm defines the losses."""

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.policies import BaseModel

from rlher.algos.compilation import compile_with_fallback, skip_compiler_import
from rlher.algos.networks import has_batchable_layers, make_feature_fn, vector_keys
from rlher.algos.target_q_bounds import Bounds
from rlher.algos.training_loop import RolloutAlgorithm
from rlher.her import HerReplayBuffer, HerReplayBufferSamples

LoggedValues = dict[str, th.Tensor]
"""Losses and other numbers of an update, such as the entropy coefficient, by name in the log."""

LOSS_OPTIONS = {"bc_weight": 0.0, "action_l2": 0.0, "target_policy_noise_schedule": "constant"}
"""Arguments of algorithms that change the losses, with the values at which they have no effect."""


class UpdateBatch(NamedTuple):
    """The buffer's batch in the form that the losses need, and the random numbers of the algorithm.

    Observations are one tensor, discounts are 0 where ``done`` is set, and all values are tensors, so that losses can
    be compiled.

    The random numbers are drawn before the losses are computed, in Stable-Baselines3's order. So compiled and
    uncompiled code use the same numbers.

    :ivar obs: (batch, features), the keys joined in alphabetical order: ``achieved_goal``, ``desired_goal``, ….
    :ivar actions: (batch, action_dim), or (batch, 1) indices of discrete actions.
    :ivar next_obs: (batch, features).
    :ivar rewards: (batch, 1) rewards or n-step returns.
    :ivar discounts: (batch, 1) discounts of the value of ``next_obs``; 0 if nothing is bootstrapped.
    :ivar weights: (batch, 1) importance weights, None if all are equal.
    :ivar demonstrations: observations and actions of the demonstrations in the batch, None if nothing is cloned.
    :ivar noise: (batch, action_dim) noise of the actor's actions.
    :ivar next_noise: (batch, action_dim) noise of the target actions.
    :ivar ent_coef: entropy coefficient.
    """

    obs: th.Tensor
    actions: th.Tensor
    next_obs: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor
    weights: th.Tensor | None = None
    demonstrations: tuple[th.Tensor, th.Tensor] | None = None
    noise: Any = None
    next_noise: Any = None
    ent_coef: Any = None

    def weighted_mean(self, losses: th.Tensor) -> th.Tensor:
        """Return the mean of losses (…, batch, any), with each transition weighted by its importance."""
        return losses.mean() if self.weights is None else (losses * self.weights).mean()


class FastAlgorithm(RolloutAlgorithm):
    """Stable-Baselines3's algorithm with a faster ``train``: same mathematics, same files, less work.

    Observations are concatenated once, not once per network. Networks of one shape are evaluated together. Unused
    gradients are not computed. The optimizer step and the target update are each one call for all parameters.

    Policies with images, or with a learnt or shared features extractor, use Stable-Baselines3's own ``train``, see
    ``fallback_reason``. Then ``compile``, ``bf16`` and ``target_q_bounds`` have no effect.

    :param target_q_bounds: lowest and highest value of the target network; either may be None. See
        :func:`~rlher.algos.target_q_bounds.resolve_target_q_bounds`.
    :param compile: run the losses through ``torch.compile``.
    :param bf16: compute wide layers of the losses in bf16; weights stay float32.
    :raises ValueError: the fast update does not support this policy, but an argument, an overridden method of the
        update or a priority by TD error needs the fast update.
    """

    fast: Any = None
    """What :meth:`setup_update` returned; None if Stable-Baselines3's ``train`` is used."""

    def __init__(
        self,
        *args: Any,
        target_q_bounds: Bounds | None = None,
        compile: bool = False,
        bf16: bool = False,
        **kwargs: Any,
    ) -> None:
        self.target_q_bounds, self.compile, self.bf16 = target_q_bounds, compile, bf16
        if not compile:
            skip_compiler_import()
        super().__init__(*args, **kwargs)

    # ------------------------------------------------------------------------- defined by each algorithm

    def setup_update(self) -> SimpleNamespace:
        """Return what ``update`` needs besides the networks, for the attribute ``fast``. It is not saved with a model.

        Its ``optimizers`` are those whose learning rate follows the schedule.
        """
        raise NotImplementedError

    def update(self, batch: UpdateBatch, step: int) -> tuple[LoggedValues, th.Tensor]:
        """Do one update.

        :param batch: batch without random numbers.
        :param step: index of this update among the gradient steps of a ``train`` call.
        :return: values to log by name, which are numbers or tensors with one element, and the TD errors
            (…, batch, any).
        """
        raise NotImplementedError

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return actions (batch, …) for (batch, features), in float32. Continuous actions are in [-1, 1]."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------- training

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "fast"]

    def _setup_model(self) -> None:
        super()._setup_model()
        networks = [network for network in self.policy.children() if isinstance(network, BaseModel)]
        if not all(map(has_batchable_layers, networks)):
            self.fallback_reason = (
                "the fast update supports no images, no learnt or shared features, and no layers such as Dropout"
            )
            if unusable := self._options_that_need_fast_update():
                raise ValueError(f"{', '.join(unusable)} cannot be used: {self.fallback_reason}; leave it out")
            return
        self.fast = self.setup_update()
        policy_network = networks[0]  # the actor, or the Q network
        self.fast.feature_fn = make_feature_fn(policy_network)
        self.fast.reads_only_vectors = vector_keys(policy_network) is not None

    def _options_that_need_fast_update(self) -> list[str]:
        """Return the options that change learning, but that Stable-Baselines3's ``train`` would ignore."""
        options = {name: getattr(self, name, neutral) for name, neutral in LOSS_OPTIONS.items()}
        ignored = [f"{name}={value}" for name, value in options.items() if value != LOSS_OPTIONS[name]]
        classes = type(self).__mro__
        own = next(cls for cls in classes if cls.__module__.startswith("rlher."))
        for cls in classes[: classes.index(own)]:  # the user's, which may override methods that only this update calls
            ignored += [name for name in vars(cls) if hasattr(own, name) and not hasattr(RolloutAlgorithm, name)]
        if isinstance(self.replay_buffer, HerReplayBuffer) and self.replay_buffer.priority.uses_td_errors():
            ignored.append(f"priority={type(self.replay_buffer.priority).__name__}")
        return ignored

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update ``gradient_steps`` times on batches of ``batch_size`` transitions, and log the mean of each loss."""
        if self.fallback_reason is not None:
            super().train(gradient_steps, batch_size)
            return
        self._update_learning_rate(self.fast.optimizers)
        history: dict[str, list[Any]] = defaultdict(list)
        for step in range(gradient_steps):
            # The samples of SB3's own buffers have only the first of these fields.
            samples = HerReplayBufferSamples(*self.replay_buffer.sample(batch_size, env=self._vec_normalize_env))
            self._n_updates += 1
            logged, errors = self.update(self._make_batch(samples), step)
            for name, value in logged.items():
                history[name].append(value)
            if samples.indices is not None:
                self.replay_buffer.update_priorities(samples.indices, _error_per_transition(errors))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in history.items():
            self.logger.record(f"train/{name}", sum(map(float, values)) / len(values))

    def _make_batch(self, samples: HerReplayBufferSamples) -> UpdateBatch:
        discounts = self.gamma if samples.discounts is None else samples.discounts
        return UpdateBatch(
            obs=self.fast.feature_fn(samples.observations),
            actions=samples.actions,
            next_obs=self.fast.feature_fn(samples.next_observations),
            rewards=samples.rewards,
            discounts=(1 - samples.dones) * discounts,
            weights=samples.weights,
        )

    # ------------------------------------------------------------------------------------ parts of the losses

    def clamp_target_q(self, values: th.Tensor) -> th.Tensor:
        """Return values of the target network, clamped to ``target_q_bounds``."""
        return values if self.target_q_bounds is None else values.clamp(*self.target_q_bounds)

    def compile_if_enabled(self, function: Callable) -> Callable:
        """Return ``function``, compiled if ``compile`` is set; it must change nothing in place."""
        return compile_with_fallback(function) if self.compile else function

    # ------------------------------------------------------------------------------------------------- acting

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        """Return the actions that Stable-Baselines3 returns, in two thirds of the time if all keys are vectors."""
        if self.fast is None or not self.fast.reads_only_vectors:
            return super().predict(observation, state, episode_start, deterministic)
        with th.no_grad():
            features = self.fast.feature_fn(observation)
            actions = self.act(features.reshape(-1, features.shape[-1]), deterministic).cpu().numpy()
        actions = actions.reshape(features.shape[:-1] + (self.action_space.shape or ()))
        if self.policy.squash_output:
            actions = self.policy.unscale_action(actions)
        return actions, state


def _error_per_transition(errors: th.Tensor) -> th.Tensor:
    """Return the mean absolute TD error (batch,) over critics and outputs, from errors (…, batch, any)."""
    flat = errors.detach().abs()
    return flat.reshape(-1, *flat.shape[-2:]).mean(dim=(0, 2))
