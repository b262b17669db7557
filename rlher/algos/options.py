"""Options of the update step that Stable-Baselines3 does not have."""

from dataclasses import dataclass

from rlher.config.algorithms import SCHEDULES, TARGET_UPDATES

PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Options:
    """Options of the update step; the defaults are Stable-Baselines3's behaviour.

    They are not saved with a model: pass them to ``load(path, options=...)`` again.

    :param target_bounds: lowest and highest value of the target network, either may be None. OpenAI baselines' HER
        clips like this (``clip_return``); bounded Q in Hiraoka 2023 (arXiv:2312.05787).
    :param target_critics: number of critics, drawn for each update, whose minimum is the target; the actor then
        maximises the mean of all critics. None: all critics, as SB3. (REDQ, Chen et al. 2021, arXiv:2101.05982)
    :param random_action: probability of a uniform exploration action, besides the action noise (OpenAI baselines'
        ``random_eps``; Plappert et al. 2018, arXiv:1802.09464).
    :param random_action_hold: steps for which a random action is held; above 1, those before ``learning_starts``, too.
    :param target_update: ``update``: target networks follow each update; ``round``: only the last one of a call of
        ``train``, by the share ``tau`` (OpenAI baselines' HER, nnabla-rl).
    :param target_policy_noise_schedule: TD3: how the noise of the target actions develops from ``target_policy_noise``
        on, which the critic needs in the beginning and which hides precise actions in the end: ``constant``, or to 0
        as ``linear`` or ``cosine``.
    :param action_l2: weight of the mean squared action in the actor's loss (same source); actions span [-1, 1].
    :param bc_weight: weight of the cloning loss in the actor's loss: the mean squared distance of its actions from
        those of the batch's demonstrations (Nair et al. 2018, arXiv:1709.10089).
    :param q_filter: clone only actions that the critics prefer to the actor's own (same source).
    :param overlap: do the updates of a ``train`` call while the environments step, with actions chosen before them.
    :param compile: run the losses through ``torch.compile``.
    :param onednn: multiply float32 matrices in the losses by oneDNN instead of torch's default (MKL); CPU only.
    :param precision: ``bf16`` computes the losses under autocast, weights stay float32.
    :raises ValueError: a value is out of its range.
    """

    target_bounds: tuple[float | None, float | None] | None = None
    target_critics: int | None = None
    target_update: str = "update"
    random_action: float = 0.0
    random_action_hold: int = 1
    target_policy_noise_schedule: str = "constant"
    action_l2: float = 0.0
    bc_weight: float = 0.0
    q_filter: bool = True
    overlap: bool = False
    compile: bool = False
    onednn: bool = False
    precision: str = "float32"

    def __post_init__(self) -> None:
        if not 0 <= self.random_action <= 1:
            raise ValueError(f"random_action={self.random_action} must lie between 0 and 1.")
        if self.random_action_hold < 1:
            raise ValueError(f"random_action_hold={self.random_action_hold} must be at least 1.")
        if self.target_update not in TARGET_UPDATES:
            raise ValueError(f"target_update={self.target_update!r} is not one of {', '.join(TARGET_UPDATES)}.")
        if self.target_policy_noise_schedule not in SCHEDULES:
            kinds = ", ".join(SCHEDULES)
            raise ValueError(
                f"target_policy_noise_schedule={self.target_policy_noise_schedule!r} is not one of {kinds}."
            )
        if self.action_l2 < 0:
            raise ValueError(f"action_l2={self.action_l2} must be at least 0.")
        if self.bc_weight < 0:
            raise ValueError(f"bc_weight={self.bc_weight} must be at least 0.")
        if self.target_critics is not None and self.target_critics < 1:
            raise ValueError(f"target_critics={self.target_critics} must be at least 1.")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision={self.precision!r} is not one of {', '.join(PRECISIONS)}.")
