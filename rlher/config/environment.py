"""Config keys of an environment."""

from dataclasses import dataclass, field
from typing import Any

from rlher.config.key import key


@dataclass
class RelayConfig:
    """Relay sub-goals for object tasks (RHER, arXiv:2208.00843): while training, sometimes reach for the object."""

    enabled: bool = key(False, "widen the goals by a slot for the hand, and train both")
    hand: list[int] = key([], "[first, end) of the hand's position in `observation`", low=0)
    object: list[int] = key([], "[first, end) of the object's position in `observation`", low=0)
    origin: list[float] = key([], "middle of the workspace, subtracted from goals")
    probability: float = key(0.5, "of going for the object, while the hand is far from it", low=0, high=1)
    distance: float = key(0.03, "beyond which the hand is far from the object", low=0)
    reach_threshold: float = key(0.05, "within which the hand has reached its goal", low=0)
    reach_share: float = key(0.5, "share of virtual goals that are for the hand", low=0, high=1)


@dataclass
class EnvConfig:
    """An environment and what the rest of the program must know of it; null means: probe it."""

    id: str = key("", "registered id, as gymnasium.make takes it")
    name: str = key("", "name in the run folder; empty: the id")
    description: str = key("", "one line for `rlher list envs`")
    actions: str | None = key(None, "kind of its actions", choices=("continuous", "discrete"))
    modules: list[str] = key([], "packages imported first, because they register environments")
    kwargs: dict[str, Any] = key({}, "keyword arguments of gymnasium.make")
    max_episode_steps: int | None = key(None, "steps after which an episode is truncated", low=1)
    success_key: str | None = key(None, "key of `info` that says success")
    crash_key: str | None = key(None, "key of `info` that says a crash")
    extra_reward: bool = key(False, "step's reward has a part no goal explains, such as the cost of an action")
    ends_on_success: bool | None = key(None, "whether success terminates the episode")
    success_reward: float | None = key(None, "compute_reward at or above which the goal counts as reached")
    reward_range: list[float | None] | None = key(None, "[low, high] of one step's reward, null where unknown")
    step_timeout: float | None = key(
        None, "seconds a step or reset may take in a process of its own; null: 300, 0: any time", low=0
    )
    max_restarts: int = key(
        5, "fresh processes in the place of dead or hanging ones, with no episode finished in between", low=0
    )
    action_repeat: int = key(1, "environment steps per action, in training and evaluation", low=1)
    reward_offset: float = key(0.0, "added to every training reward, such as -1 where the environment pays 0 and 1")
    relay: RelayConfig = field(default_factory=RelayConfig, metadata={"text": "relay sub-goals"})
    extra: str | None = key(None, "optional dependency it comes with: pip install rlher[<extra>]")

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
    """Our bit flipping, section 4.1 of the HER paper."""

    n_bits: int = key(15, "bits, and steps an episode", low=1)
    continuous: bool = key(False, "a Box action, whose largest entry names the bit, for SAC and its kin")
    fixed_goal: bool = key(False, "all ones as the goal, as SB3's BitFlippingEnv; false: drawn each episode")


ENV_SCHEMAS: dict[str, type[EnvConfig]] = {"any": EnvConfig, "bit_flipping": BitFlippingConfig}
