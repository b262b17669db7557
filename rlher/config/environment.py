"""Config keys of an environment."""

from dataclasses import dataclass, field, replace
from typing import Any

from rlher.config.key import param, setting
from rlher.core.errors import UserError


@dataclass
class RelayConfig:
    """Relay sub-goals for object tasks (RHER, arXiv:2208.00843): training sends the hand to the object."""

    enabled: bool = param(False, "add a part for the hand to goals, and send it to the object")
    hand: list[int] = param([], "indices [first, end) of the hand's position in `observation`", low=0)
    origin: list[float] = param([], "centre of the workspace, subtracted from goals")
    probability: float = param(0.5, "probability of reaching for the object while far from it", low=0, high=1)
    distance: float = param(0.03, "distance above which the hand is far from the object", low=0)
    reach_threshold: float = param(0.05, "distance below which the hand has reached its goal", low=0)


@dataclass
class EnvConfig:
    """An environment. Properties that are null are measured in a few random episodes."""

    id: str = param("", "registered id, as for gymnasium.make", names_code="module:name")
    name: str = param("", "name in the path of the run folder; empty: the id")
    description: str = setting("", "one line for `rlher list envs`")
    actions: str | None = setting(None, "action space for `rlher list envs`", choices=("continuous", "discrete"))
    modules: list[str] = param([], "modules to import first, which register environments", names_code="any")
    kwargs: dict[str, Any] = param({}, "keyword arguments of gymnasium.make", names_code="any")
    wrappers: list[Any] = param(
        [], "wrappers, innermost first: module:Class or {module:Class: {argument: value}}", names_code="any"
    )
    max_episode_steps: int | None = param(None, "steps after which an episode is truncated", low=1)
    success_key: str | None = param(None, "key of `info` that is true on success")
    crash_key: str | None = param(None, "key of `info` that is true on a crash")
    goal_independent_reward: bool = param(False, "rewards have a part that does not depend on the goal")
    ends_on_success: bool | None = param(None, "whether success terminates the episode")
    success_reward: float | None = param(None, "compute_reward at or above which a goal counts as reached")
    reward_range: list[float | None] | None = param(None, "[low, high] reward of a step; null: unknown", length=2)
    step_timeout: float | None = setting(300.0, "seconds per step or reset in a subprocess; null: no limit", low=1)
    max_restarts: int = setting(5, "replacements of worker processes without a finished episode in between", low=0)
    action_repeat: int = param(1, "environment steps per action, in training and evaluation", low=1)
    reward_offset: float = param(0.0, "added to every training reward, such as -1 if rewards are 0 and 1")
    fall_height: float | None = param(None, "height of the goal below which an object has fallen in training")
    relay: RelayConfig = field(default_factory=RelayConfig)
    camera: dict[str, Any] = setting({}, "MuJoCo's camera in videos: distance, azimuth, elevation, lookat")

    def validate(self) -> None:
        """Raise UserError for an argument of the environment that rlher sets itself."""
        if "render_mode" in self.kwargs:
            raise UserError("env.kwargs.render_mode is set by rlher itself; leave it out and watch with `rlher enjoy`.")

    def without_training_aids(self) -> "EnvConfig":
        """Return the environment with its own goals and rewards, without the changes that help training."""
        return replace(self, relay=RelayConfig(), reward_offset=0.0, fall_height=None)

    @property
    def label(self) -> str:
        """Name of the environment: ``name``, or the id if ``name`` is empty."""
        return self.name or self.id

    @property
    def goal_parts(self) -> int:
        """Number of parts of a goal. Relay sub-goals add a part for the hand."""
        return 2 if self.relay.enabled else 1

    @property
    def training_success_reward(self) -> float | None:
        """``success_reward`` of the training environments, ``reward_offset`` included."""
        return None if self.success_reward is None else self.success_reward + self.reward_offset

    @property
    def training_reward_range(self) -> list[float | None] | None:
        """``reward_range`` of the training environments, ``reward_offset`` included."""
        if self.reward_range is None:
            return None
        return [None if bound is None else bound + self.reward_offset for bound in self.reward_range]
