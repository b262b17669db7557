"""Running normalisation of observations as a part of the policy, so that a saved model contains the statistics.

This module imports no other module of rlher, because `rlher export` copies it beside the exported model.
"""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor
from torch import nn

MIN_STD = 1e-2
"""Lower bound of a feature's standard deviation, as in OpenAI baselines, so that noise is not amplified."""

GOALS = ("achieved_goal", "desired_goal")

START_COUNT = 1e-4
"""Weight of the mean 0 and variance 1 with which the statistics start, as in Stable-Baselines3's VecNormalize."""


class ObservationNormalizer(nn.Module):
    """Running mean and variance of each entry of an observation's float vectors, which are joined in order.

    Achieved and desired goals share their statistics. Hindsight replaces desired goals by achieved ones, so the network
    must read both in the same coordinates. OpenAI baselines has a single normalizer ``g`` for the same reason.

    :param observation_space: observation space of the environment.
    :param clip: bound of a normalised entry, in standard deviations (5 in OpenAI baselines).
    :param goal_parts: number of equal parts of a goal. With several parts, goals are not centred, so the zeros of an
        unused part stay zeros. Their scale comes from the achieved goals of all parts.
    """

    mean: th.Tensor
    var: th.Tensor
    count: th.Tensor

    def __init__(self, observation_space: spaces.Dict, clip: float = 5.0, goal_parts: int = 1) -> None:
        super().__init__()
        self.shapes = {key: space.shape or () for key, space in observation_space.items() if _is_float_vector(space)}
        self.sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        self._clip = clip
        total = sum(self.sizes)
        indices = np.split(np.arange(total), np.cumsum(self.sizes)[:-1])
        entries = dict(zip(self.shapes, indices, strict=True))
        has_goals = all(key in entries for key in GOALS)
        goals = np.stack([entries[key] for key in GOALS]) if has_goals else np.zeros((2, 0), int)
        # Each row holds the indices of the entries of one goal part. The achieved goal's parts come first. All parts of
        # both goals have the same statistics.
        self._goal_part_indices = goals.reshape(2 * goal_parts, -1)
        # Only these parts enter the statistics. With several parts, the desired goal is left out, because all its parts
        # but one are zeros.
        self._source_part_indices = self._goal_part_indices if goal_parts == 1 else self._goal_part_indices[:goal_parts]
        self._is_centred = np.ones(total, dtype=bool)  # where False, the mean stays 0
        self._is_centred[self._goal_part_indices] = goal_parts == 1
        # float64: a sum over millions of steps needs more digits than float32 has.
        self.register_buffer("mean", th.zeros(total, dtype=th.float64))
        self.register_buffer("var", th.ones(total, dtype=th.float64))
        self.register_buffer("count", th.tensor(START_COUNT, dtype=th.float64))

    def forward(self, vectors: th.Tensor) -> th.Tensor:
        """Return (batch, entries) normalised, in float32."""
        scale = (self.var + MIN_STD**2).rsqrt()
        return ((vectors.float() - self.mean.float()) * scale.float()).clamp(-self._clip, self._clip)

    @th.no_grad()
    def update(self, obs: dict[str, np.ndarray]) -> None:
        """Add (n, …) raw observations by key to the statistics.

        This is Welford's step for a batch (Chan et al. 1979). Let d be the differences from the old mean, and e the
        differences from the new mean. The mean grows by sum(d) / total. The sum of squares, which is variance times
        count, grows by sum(d * e).
        """
        rows = np.concatenate([obs[key].reshape(len(obs[key]), -1) for key in self.shapes], axis=1, dtype=np.float64)
        old = self.mean.numpy(force=True)
        count = float(self.count)
        total = count + len(rows)
        differences = rows - old
        mean = old + self._average_parts(differences.sum(axis=0)) * (self._is_centred / total)
        added_squares = self._average_parts((differences * (rows - mean)).sum(axis=0))
        self.var.copy_(th.from_numpy((self.var.numpy(force=True) * count + added_squares) / total))
        self.mean.copy_(th.from_numpy(mean))
        self.count.fill_(total)

    def _average_parts(self, sums: np.ndarray) -> np.ndarray:
        """Return (entries,) sums in which each goal part is replaced by the average of the source parts."""
        averaged = sums.copy()
        averaged[self._goal_part_indices] = sums[self._source_part_indices].mean(axis=0)
        return averaged


class NormalizedExtractor(BaseFeaturesExtractor):
    """Normalises the observation's float vectors before a features extractor; images and integers stay as they are.

    :param observation_space: observation space of the environment.
    :param clip, goal_parts: see :class:`ObservationNormalizer`.
    :param features_extractor_class: features extractor that gets the normalised observation.
    :param features_extractor_kwargs: keyword arguments of the features extractor.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        clip: float = 5.0,
        goal_parts: int = 1,
        features_extractor_class: type[BaseFeaturesExtractor] = CombinedExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
    ) -> None:
        extractor = features_extractor_class(observation_space, **(features_extractor_kwargs or {}))
        super().__init__(observation_space, extractor.features_dim)
        self.extractor = extractor
        self.normalizer = ObservationNormalizer(observation_space, clip, goal_parts)

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        """Return (batch, features) of a batch of observations by key."""
        shapes = self.normalizer.shapes
        vectors = self.normalizer(th.cat([observations[key].flatten(1) for key in shapes], dim=1))
        parts = zip(shapes.items(), vectors.split(self.normalizer.sizes, dim=1), strict=True)
        normalized = {key: part.reshape(-1, *shape) for (key, shape), part in parts}
        return self.extractor({**observations, **normalized})


def has_float_vectors(observation_space: Any) -> bool:
    """Return whether the observation has a float vector, which can be normalised."""
    return any(map(_is_float_vector, observation_space.values()))


def _is_float_vector(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
