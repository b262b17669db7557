"""Config keys of hindsight and of demonstrations, with their defaults."""

from dataclasses import dataclass
from typing import Any

from rlher.config.key import param
from rlher.her.priorities import PRIORITIES
from rlher.her.reward_and_done import RELABEL_DONE
from rlher.her.strategies import STRATEGIES

HER_PRESETS: dict[str, dict[str, Any]] = {
    "off": {"her.n_sampled_goal": 0},
    # SB3's HerReplayBuffer keeps the stored done and takes the reward from compute_reward alone (SB3 #627,
    # baselines #720).
    "sb3": {"her.relabel_done": "keep", "her.keep_goal_independent_reward": False},
}
"""The values that ``her=<name>`` sets. Besides these names, ``her=`` takes the names of strategies."""


@dataclass
class HerConfig:
    """Hindsight: which goals replace the desired one, and how reward and done are recomputed.

    The keys are arguments of :class:`rlher.HerReplayBuffer`.
    """

    n_sampled_goal: int = param(4, "virtual transitions per real one; 0: replay without hindsight", low=0)
    goal_selection_strategy: str = param(
        "future",
        "how virtual goals are chosen; `rlher list strategies` explains",
        choices=tuple(STRATEGIES),
        names_code="module:name",
    )
    goal_selection_kwargs: dict[str, Any] = param({}, "keyword arguments of a strategy of your own")
    goal_mix: dict[str, float] = param(
        {}, "weights of the strategies of `mix`; empty: the default weights", names_code="module:name"
    )
    goal_mix_start: int = param(0, "stored transitions after which `mix` has its weights; `future` before", low=0)
    n_steps: int = param(1, "steps of an n-step return", low=1)
    priority: str = param("uniform", "sampling of transitions", choices=tuple(PRIORITIES), names_code="module:name")
    priority_kwargs: dict[str, Any] = param({}, "keyword arguments of the priority's class")
    relabel_done: str = param("auto", "how `done` of a virtual transition is set", choices=RELABEL_DONE)
    keep_goal_independent_reward: bool = param(True, "keep the reward's part that does not depend on the goal")


@dataclass
class DemosConfig:
    """Demonstrations: episodes of a dataset that stay in the replay buffer, and that the actor may clone."""

    path: str | None = param(None, "folder, or name in Minari's folder; short: demos=")
    fraction: float = param(0.125, "share of each batch from demonstrations", low=0.01, high=0.99)
    bc_weight: float = param(0.0, "weight of the cloning loss in the actor's loss", low=0)
    q_filter: bool = param(True, "clone only actions that the critic prefers to the actor's own")
    pretrain_updates: int = param(0, "updates that clone the demonstrations before the first step", low=0)
