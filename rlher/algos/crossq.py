"""CrossQ for goal environments."""

from typing import Any, ClassVar

import sb3_contrib
import torch as th
from sb3_contrib.crossq.policies import CrossQPolicy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import CombinedExtractor

from rlher.algos.training_loop import TrainingLoop
from rlher.her import HerReplayBuffer


class MultiInputPolicy(CrossQPolicy):
    """CrossQ's policy for dictionary observations."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("features_extractor_class", CombinedExtractor)
        super().__init__(*args, **kwargs)


class DictObservations(dict):
    """A dictionary of batches that ``torch.cat`` concatenates key by key.

    CrossQ evaluates its critic on a batch and its successors in one forward pass, because batch normalisation must see
    both (Bhatt et al. 2024); sb3-contrib concatenates them with ``torch.cat``, which takes no dictionaries.
    """

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> "DictObservations":
        if function is not th.cat:
            return NotImplemented
        batches = args[0]
        return cls({name: th.cat([batch[name] for batch in batches], **(kwargs or {})) for name in batches[0]})


class _DictBuffer:
    """The replay buffer while CrossQ trains: its samples hold :class:`DictObservations`."""

    def __init__(self, buffer: HerReplayBuffer) -> None:
        self._buffer = buffer

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        samples = self._buffer.sample(*args, **kwargs)
        return samples._replace(
            observations=DictObservations(samples.observations),
            next_observations=DictObservations(samples.next_observations),
        )


class CrossQ(TrainingLoop, sb3_contrib.CrossQ):
    """CrossQ (Bhatt et al. 2024, arXiv:1902.05605): ``sb3_contrib.CrossQ`` with ``MultiInputPolicy``.

    ``train`` is sb3-contrib's.
    """

    slow_reason = "CrossQ has no fast update"
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **sb3_contrib.CrossQ.policy_aliases,
        "MultiInputPolicy": MultiInputPolicy,
    }

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update ``gradient_steps`` times on batches of ``batch_size`` transitions."""
        buffer: Any = self.replay_buffer
        self.replay_buffer = _DictBuffer(buffer)  # type: ignore[assignment]
        try:
            super().train(gradient_steps, batch_size)
        finally:
            self.replay_buffer = buffer
