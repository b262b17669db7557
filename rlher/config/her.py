"""Config keys of hindsight, with their defaults."""

from dataclasses import dataclass

from rlher.config.key import experiment_key
from rlher.her.choices import KEY_TO_GOAL_STRATEGY, PRIORITIES, RELABEL_DONE


@dataclass
class HerConfig:
    """Hindsight: which goals replace the desired one, and how reward and done are recomputed."""

    n_sampled_goal: int = experiment_key(4, "virtual transitions per real one; 0: replay without hindsight", low=0)
    goal_selection_strategy: str = experiment_key(
        "future",
        "how hindsight goals are chosen; `rlher list strategies` explains",
        choices=tuple(KEY_TO_GOAL_STRATEGY),
    )
    goal_mix: dict[str, float] = experiment_key(
        {}, "weights of the strategies of `mix`, and of `original`; empty: the default weights"
    )
    n_steps: int = experiment_key(1, "steps of an n-step return", low=1)
    priority: str = experiment_key("uniform", "how transitions are sampled", choices=tuple(PRIORITIES))
    energy_height: int | None = experiment_key(
        None,
        "index of the height in a goal, for potential energy in `priority=energy`; null: displacements alone",
        low=0,
    )
    energy_step_seconds: float | None = experiment_key(
        None, "simulated seconds between two actions, for kinetic energy; needed with `energy_height`", low=0
    )
    static_distance: float | None = experiment_key(
        None,
        "no virtual goals for episodes whose achieved goal stays within this distance of its start; null: for all",
        low=0,
    )
    relabel_done: str = experiment_key("auto", "how `done` of a virtual transition is set", choices=RELABEL_DONE)
    keep_goal_independent_reward: bool = experiment_key(
        True, "keep the part of the reward that does not depend on the goal, such as a crash penalty"
    )
    copy_info_dict: bool = experiment_key(False, "pass each step's info to compute_reward")
