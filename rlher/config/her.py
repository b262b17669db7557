"""Config keys of hindsight, with their defaults."""

from dataclasses import dataclass

from rlher.config.key import key
from rlher.her.choices import KEY_TO_GOAL_STRATEGY, PRIORITIES, RELABEL_DONE


@dataclass
class HerConfig:
    """Hindsight: which goals replace the desired one, and how reward and done are recomputed."""

    n_sampled_goal: int = key(
        4, "virtual transitions per real one; 0: replay without hindsight", low=0, affects="experiment"
    )
    goal_selection_strategy: str = key(
        "future",
        "how hindsight goals are chosen; `rlher list strategies` explains",
        choices=tuple(KEY_TO_GOAL_STRATEGY),
        affects="experiment",
    )
    goal_mix: dict[str, float] = key(
        {}, "weights of the strategies of `mix`, and of `original`; empty: the default weights", affects="experiment"
    )
    n_steps: int = key(1, "steps of an n-step return", low=1, affects="experiment")
    priority: str = key(
        "uniform",
        "how transitions are sampled",
        choices=tuple(PRIORITIES),
        affects="experiment",
    )
    relabel_done: str = key(
        "auto", "how `done` of a virtual transition is set", choices=RELABEL_DONE, affects="experiment"
    )
    keep_goal_independent_reward: bool = key(
        True,
        "keep the part of the reward that does not depend on the goal, such as a crash penalty",
        affects="experiment",
    )
    copy_info_dict: bool = key(False, "pass each step's info to compute_reward", affects="experiment")
