"""Config keys of an environment."""

from dataclasses import dataclass
from typing import Any

from rlher.config.key import key, section


@dataclass
class RelayConfig:
    """Relay sub-goals for object tasks (RHER, arXiv:2208.00843): some training episodes first reach for the object."""

    enabled: bool = key(False, "add a goal for the hand's position and train both goals", affects="experiment")
    hand: list[int] = key(
        [], "indices [first, end) of the hand's position in `observation`", low=0, affects="experiment"
    )
    object: list[int] = key(
        [], "indices [first, end) of the object's position in `observation`", low=0, affects="experiment"
    )
    origin: list[float] = key([], "centre of the workspace, subtracted from goals", affects="experiment")
    probability: float = key(
        0.5,
        "probability of reaching for the object while the hand is far from it",
        low=0,
        high=1,
        affects="experiment",
    )
    distance: float = key(0.03, "distance above which the hand is far from the object", low=0, affects="experiment")
    reach_threshold: float = key(
        0.05, "distance below which the hand has reached its goal", low=0, affects="experiment"
    )
    reach_share: float = key(
        0.5, "share of the virtual goals that are for the hand", low=0, high=1, affects="experiment"
    )


@dataclass
class EnvConfig:
    """An environment; a property that is null is probed by playing a few random episodes."""

    id: str = key("", "registered id, as for gymnasium.make", affects="experiment")
    name: str = key("", "name in the path of the run folder; empty: the id", affects="experiment")
    description: str = key("", "one line for `rlher list envs`", affects="output")
    actions: str | None = key(
        None, "kind of the action space", choices=("continuous", "discrete"), affects="experiment"
    )
    modules: list[str] = key([], "modules to import first, because they register environments", affects="experiment")
    kwargs: dict[str, Any] = key({}, "keyword arguments of gymnasium.make", affects="experiment")
    max_episode_steps: int | None = key(None, "steps after which an episode is truncated", low=1, affects="experiment")
    success_key: str | None = key(None, "key of `info` that is true on success", affects="experiment")
    crash_key: str | None = key(None, "key of `info` that is true on a crash", affects="experiment")
    extra_reward: bool = key(
        False, "rewards have a part that does not depend on the goal, such as an action cost", affects="experiment"
    )
    ends_on_success: bool | None = key(None, "whether success terminates the episode", affects="experiment")
    success_reward: float | None = key(
        None, "compute_reward at or above which a goal counts as reached", affects="experiment"
    )
    reward_range: list[float | None] | None = key(
        None, "[low, high] bounds of the reward of one step, null where unknown", affects="experiment"
    )
    step_timeout: float | None = key(
        None,
        "seconds that a step or reset in a subprocess may take; null: 300, 0: no limit",
        low=0,
        affects="machine",
    )
    max_restarts: int = key(
        5,
        "most restarts of dead or hanging subprocesses in a row, without a finished episode",
        low=0,
        affects="machine",
    )
    action_repeat: int = key(1, "environment steps per action, in training and evaluation", low=1, affects="experiment")
    reward_offset: float = key(
        0.0, "added to every training reward, such as -1 if the environment's rewards are 0 and 1", affects="experiment"
    )
    relay: RelayConfig = section(RelayConfig, "relay sub-goals")
    extra: str | None = key(None, "optional dependency that provides it: pip install rlher[<extra>]", affects="output")

    @property
    def training_success_reward(self) -> float | None:
        """``success_reward`` of the training environments, ``reward_offset`` included."""
        return None if self.success_reward is None else self.success_reward + self.reward_offset

    @property
    def training_reward_range(self) -> list[float | None] | None:
        """``reward_range`` of the training environments, ``reward_offset`` included."""
        shift = self.reward_offset
        return self.reward_range and [None if bound is None else bound + shift for bound in self.reward_range]


@dataclass
class BitFlippingConfig(EnvConfig):
    """The project's bit flipping environment (section 4.1 of the HER paper)."""

    n_bits: int = key(15, "number of bits, and of steps per episode", low=1, affects="experiment")
    continuous: bool = key(
        False, "Box actions, whose largest entry selects the bit, for algorithms such as SAC", affects="experiment"
    )
    fixed_goal: bool = key(
        False, "all ones as the goal, as SB3's BitFlippingEnv; false: a random goal per episode", affects="experiment"
    )


ENV_SCHEMAS: dict[str, type[EnvConfig]] = {"any": EnvConfig, "bit_flipping": BitFlippingConfig}
