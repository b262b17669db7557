"""Config keys of learning from demonstrations."""

from dataclasses import dataclass

from rlher.config.key import experiment_key


@dataclass
class DemosConfig:
    """Demonstrations: episodes of a dataset that stay in the replay buffer, and what else is learnt from them."""

    path: str | None = experiment_key(
        None,
        "dataset of `rlher collect` or Minari, as a folder or by its name in Minari's folder; demos= is short for it",
        ignored_by=["recipe"],
    )
    fraction: float = experiment_key(
        0.125, "share of each batch that is drawn from demonstrations", low=0.01, high=0.99
    )
    bc_weight: float = experiment_key(
        0.0, "weight of the cloning loss in the actor's loss: the squared distance of its actions", low=0
    )
    q_filter: bool = experiment_key(True, "clone only actions that the critic prefers to the actor's own")
    pretrain_steps: int = experiment_key(0, "updates that clone the demonstrations before the first step", low=0)
