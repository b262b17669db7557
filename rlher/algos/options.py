"""Options of the fast update that Stable-Baselines3 does not have."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class UpdateOptions:
    """Options of the fast update; the defaults are Stable-Baselines3's behaviour.

    They are not saved with a model: pass them to ``load(path, options=...)`` again.

    :param target_q_bounds: lowest and highest value of the target network, either may be None. OpenAI baselines' HER
        clips like this (``clip_return``); bounded Q in Hiraoka 2023 (arXiv:2312.05787).
    :param target_critics: number of critics, drawn for each update, whose minimum is the target; the actor then
        maximises the mean of all critics. None: all critics, as SB3. (REDQ, Chen et al. 2021, arXiv:2101.05982)
    :param random_action: probability in [0, 1] of a uniform exploration action, besides the action noise (OpenAI
        baselines' ``random_eps``; Plappert et al. 2018, arXiv:1802.09464).
    :param random_action_hold: steps for which a random action is held. Above 1, also the random actions before
        ``learning_starts`` are held.
    :param target_policy_noise_schedule: TD3: how the noise of the target actions falls from ``target_policy_noise`` to
        0, one of :data:`rlher.config.algorithms.SCHEDULES`. The critic needs the noise in the beginning; in the end it
        hides precise actions.
    :param action_l2: weight of the mean squared action in the actor's loss (arXiv:1802.09464); actions span [-1, 1].
    :param bc_weight: weight of the cloning loss in the actor's loss: the mean squared distance of its actions from
        those of the batch's demonstrations (Nair et al. 2018, arXiv:1709.10089).
    :param q_filter: clone only actions that the critics prefer to the actor's own (arXiv:1709.10089).
    :param overlap: update while the environments step, see :class:`~rlher.algos.training_loop.OverlappingAlgorithm`.
    :param compile: run the losses through ``torch.compile``.
    :param precision: ``float32``, or ``bf16``: compute the losses under autocast; weights stay float32.
    """

    target_q_bounds: tuple[float | None, float | None] | None = None
    target_critics: int | None = None
    random_action: float = 0.0
    random_action_hold: int = 1
    target_policy_noise_schedule: str = "constant"
    action_l2: float = 0.0
    bc_weight: float = 0.0
    q_filter: bool = True
    overlap: bool = False
    compile: bool = False
    precision: str = "float32"

    def non_sb3_options(self) -> str:
        """Return the options that are not Stable-Baselines3's behaviour, except for speed and target bounds.

        :return: ``name=value``, joined by commas.
        """
        ignored = ("target_q_bounds", "q_filter", "overlap", "compile", "precision")
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ignored}
        return ", ".join(f"{name}={value}" for name, value in values.items() if value != getattr(UpdateOptions, name))
