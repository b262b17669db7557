"""Exploration over time: noise that is correlated from step to step, and random actions that are held for some steps.

All random numbers come from NumPy's global generator and the action space's own, as those of Stable-Baselines3 do.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.noise import (
    ActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

Floats = NDArray[np.floating[Any]]

UNLIMITED = 1000
"""Steps of a sequence of pink noise where the length of episodes is unknown."""

SEQUENCES = ("noise_prev", "upcoming")
"""Attributes of Ornstein-Uhlenbeck and pink noise that change from step to step."""

HELD = ("actions", "left")
"""Attributes of :class:`RandomActions` that change from step to step."""


class PinkActionNoise(ActionNoise):
    """Noise whose power is inversely proportional to its frequency, with a new sequence for each episode.

    Between white and Ornstein-Uhlenbeck noise, and a good default according to Eberhard et al. 2023 ("Pink noise is all
    you need", ICLR).

    :param scale: standard deviations, with the shape of an action.
    :param length: steps of a sequence, those of the longest episode.
    """

    def __init__(self, scale: Floats, length: int) -> None:
        super().__init__()
        self._scale, self._length = scale, max(length, 2)
        self.reset()

    def reset(self) -> None:
        """Begin a new sequence with the next step."""
        self.upcoming: Floats = np.zeros((0, *self._scale.shape))

    def __call__(self) -> Floats:
        """Return the noise of the next step."""
        if not len(self.upcoming):
            self.upcoming = self._scale * pink_noise(self._length, self._scale.shape)
        noise, self.upcoming = self.upcoming[0], self.upcoming[1:]
        return noise.astype(np.float32)

    def __repr__(self) -> str:
        return f"PinkActionNoise(scale={self._scale}, length={self._length})"


def pink_noise(length: int, shape: tuple[int, ...]) -> Floats:
    """Return (length, …) independent sequences of pink noise with variance 1 (Timmer & Koenig 1995).

    Frequency 0 gets the power of the next one, because 1 / 0 is not defined.
    """
    frequencies = np.fft.rfftfreq(length)
    frequencies[0] = frequencies[1]
    amplitudes = frequencies**-0.5
    real, imaginary = np.random.normal(size=(2, *shape, len(amplitudes)))
    waves = np.moveaxis(np.fft.irfft(amplitudes * (real + 1j * imaginary), n=length), -1, 0)
    parts = np.full(len(amplitudes), 4.0)  # of the variance; the first and, of an even length, the last are real
    parts[0 :: len(parts) - 1 if length % 2 == 0 else len(parts)] = 1.0
    return waves * length / np.sqrt((parts * amplitudes**2).sum())


def make_noise(kind: str, scale: float, shape: tuple[int, ...], n_envs: int, length: int | None) -> ActionNoise | None:
    """Return the action noise of that kind; None if its scale is 0.

    :param kind: ``normal``, ``ou`` (Stable-Baselines3's Ornstein-Uhlenbeck noise) or ``pink``.
    :param scale: standard deviation, or sigma of Ornstein-Uhlenbeck noise; actions span [-1, 1].
    :param shape: of an action.
    :param n_envs: number of environments, each of which has its own noise.
    :param length: steps of the longest episode; None: unknown.
    """
    if scale == 0:
        return None
    mean, scales = np.zeros(shape), np.full(shape, scale)
    noise: ActionNoise = NormalActionNoise(mean, scales)
    if kind == "ou":
        noise = OrnsteinUhlenbeckActionNoise(mean, scales)
    elif kind == "pink":
        noise = PinkActionNoise(scales, length or UNLIMITED)
    return VectorizedActionNoise(noise, n_envs) if n_envs > 1 else noise


class RandomActions:
    """Uniformly random actions in place of some of an agent's, each held for some steps (cf. arXiv:2006.01782).

    :param action_space: bounded; actions are drawn from it.
    :param share: share of random actions, whatever ``hold`` is.
    :param hold: steps for which a random action is held, fewer where its episode ends.
    :param n_envs: number of environments.
    """

    def __init__(self, action_space: spaces.Box, share: float, hold: int, n_envs: int) -> None:
        self.action_space, self.share, self.hold = action_space, share, hold
        self.actions = np.zeros((n_envs, *action_space.shape), action_space.dtype)
        self.left = np.zeros(n_envs, dtype=np.int64)  # steps for which each environment's action is still held

    def replace(self, actions: NDArray, warm_up: bool) -> list[int]:
        """Write random actions over some of the (n_envs, …) actions, and return the numbers of their environments.

        :param warm_up: with ``hold`` above 1, replace all of them.
        """
        begin = self.share / (self.hold - self.share * (self.hold - 1))  # while no action is held
        if warm_up and self.hold > 1:
            begin = 1.0
        if begin == 0 and not self.left.any():
            return []
        for env in np.flatnonzero((np.random.random(len(self.left)) < begin) & (self.left == 0)):
            self.actions[env], self.left[env] = self.action_space.sample(), self.hold
        replaced = np.flatnonzero(self.left).tolist()
        actions[replaced] = self.actions[replaced]
        self.left[replaced] -= 1
        return replaced

    def reset(self, envs: NDArray | slice = slice(None)) -> None:
        """Hold no action any longer in those environments, because their episodes ended."""
        self.left[envs] = 0


# ------------------------------------------------------------------------------------------------- state of a model


def reset(model: OffPolicyAlgorithm) -> None:
    """Reset noise and held actions of a model, whose episodes all ended."""
    if model.action_noise is not None:
        model.action_noise.reset()
    if (random_actions := _random_actions(model)) is not None:
        random_actions.reset()


def state(model: OffPolicyAlgorithm) -> dict[str, Any]:
    """Return the state of noise and held actions as JSON values."""
    random_actions = _random_actions(model)
    held = {} if random_actions is None else {name: getattr(random_actions, name).tolist() for name in HELD}
    return {"noise": [noise[name].tolist() for noise, name in _sequences(model)], "held": held}


def restore(model: OffPolicyAlgorithm, saved: dict[str, Any]) -> None:
    """Restore a value of :func:`state`.

    :raises Exception: it belongs to another model.
    """
    for (noise, name), values in zip(_sequences(model), saved["noise"], strict=True):
        noise[name] = np.array(values, dtype=noise[name].dtype).reshape(-1, *noise[name].shape[1:])
    random_actions = _random_actions(model)
    for name, values in saved["held"].items():
        getattr(random_actions, name)[...] = values


def _sequences(model: OffPolicyAlgorithm) -> list[tuple[dict[str, Any], str]]:
    """Return the attributes of a model's noise that change, each as a namespace and a name."""
    noise = model.action_noise
    noises = noise.noises if isinstance(noise, VectorizedActionNoise) else [noise] if noise is not None else []
    return [(vars(each), name) for each in noises for name in SEQUENCES if name in vars(each)]


def _random_actions(model: OffPolicyAlgorithm) -> RandomActions | None:
    return getattr(model, "random_actions", None)
