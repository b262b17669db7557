"""Options of the algorithms that Stable-Baselines3 does not have."""

import math
from dataclasses import dataclass
from typing import Any

from rlher.core.errors import UserError

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class AlgorithmOptions:
    """Options of an algorithm; the defaults are Stable-Baselines3's behaviour.

    They are not saved with a model: pass them to ``load(path, options=...)`` again. :mod:`rlher.config.algorithms`
    describes the config keys ``algo.…``, and :mod:`rlher.config.her` the keys ``demos.…``.

    :param target_q_bounds: lowest and highest value of the target network, either may be None; see
        :func:`resolve_target_q_bounds`.
    :param random_action: as ``algo.random_action``, besides the action noise (OpenAI baselines' ``random_eps``;
        Plappert et al. 2018, arXiv:1802.09464).
    :param random_action_hold: as ``algo.random_action_hold``.
    :param target_policy_noise_schedule: as ``algo.target_policy_noise_schedule``, for TD3. The critic needs the noise
        in the beginning; in the end it hides precise actions.
    :param action_l2: as ``algo.action_l2`` (arXiv:1802.09464); actions span [-1, 1].
    :param bc_weight: as ``demos.bc_weight``. The cloning loss is the mean squared distance of the actor's actions from
        those of the batch's demonstrations (Nair et al. 2018, arXiv:1709.10089).
    :param q_filter: as ``demos.q_filter`` (arXiv:1709.10089).
    :param overlap: update while the environments step, see :class:`~rlher.algos.training_loop.GoalAlgorithm`.
    :param compile: run the losses through ``torch.compile``.
    :param bf16: compute wide layers of the losses in bf16; weights stay float32.
    """

    target_q_bounds: Bounds | None = None
    random_action: float = 0.0
    random_action_hold: int = 1
    target_policy_noise_schedule: str = "constant"
    action_l2: float = 0.0
    bc_weight: float = 0.0
    q_filter: bool = True
    overlap: bool = False
    compile: bool = False
    bf16: bool = False

    def changed_learning_options(self) -> list[str]:
        """Return ``name=value`` of the options in use that change what is learnt, and that need the fast update.

        Target bounds are not among them: they only speed up learning.
        """
        values = {name: getattr(self, name) for name in ("target_policy_noise_schedule", "action_l2", "bc_weight")}
        return [f"{name}={value}" for name, value in values.items() if value != getattr(AlgorithmOptions, name)]


def resolve_target_q_bounds(value: Any, reward_range: list[float | None] | None, gamma: float) -> Bounds | None:
    """Return the bounds of target values that the config key ``target_q_bounds`` stands for.

    No return lies outside [min(low, 0), max(high, 0)] / (1-gamma), so no target should either. OpenAI baselines' HER
    clips its targets like this (``clip_return``); Hiraoka 2023 (arXiv:2312.05787) calls it bounded Q and finds it
    important for learning sparse goal tasks fast.

    :param value: value of the key: ``"auto"``, None, or a pair of numbers, either of which may be None.
    :param reward_range: lowest and highest reward of one step (low and high above), None where unknown.
    :param gamma: discount factor in [0, 1].
    :return: lowest and highest target, or None without bounds. They include 0, because an episode may end at any step.
    :raises UserError: ``value`` has another form.
    """
    if value is None:
        return None
    if value == "auto":
        return _from_reward_range(reward_range, gamma)
    if (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(bound is None or (isinstance(bound, int | float) and math.isfinite(bound)) for bound in value)
    ):
        low, high = value
        if low is not None and high is not None and low >= high:
            raise UserError(f"algo.target_q_bounds={value} has a low bound that is not below the high one; swap them.")
        return None if low is None and high is None else (low, high)
    raise UserError(f"algo.target_q_bounds={value!r} is not valid; use auto, null, or a pair such as [-20, 0].")


def _from_reward_range(reward_range: list[float | None] | None, gamma: float) -> Bounds | None:
    if reward_range is None or gamma == 1.0:
        return None
    low, high = reward_range
    bounds = (
        None if low is None else min(low, 0.0) / (1.0 - gamma),
        None if high is None else max(high, 0.0) / (1.0 - gamma),
    )
    return None if bounds == (None, None) else bounds
