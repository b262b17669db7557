"""Options of the fast update that Stable-Baselines3 does not have."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class UpdateOptions:
    """Options of the fast update; the defaults are Stable-Baselines3's behaviour.

    They are not saved with a model: pass them to ``load(path, options=...)`` again. :mod:`rlher.config.algorithms`
    describes the config keys ``algo.…``, and :mod:`rlher.config.her` the keys ``demos.…``.

    :param target_q_bounds: lowest and highest value of the target network, either may be None; see
        :mod:`rlher.algos.target_q_bounds`.
    :param target_critics: as ``algo.target_critics``. The actor then maximises the mean of all critics (REDQ, Chen et
        al. 2021, arXiv:2101.05982).
    :param random_action: as ``algo.random_action``, besides the action noise (OpenAI baselines' ``random_eps``;
        Plappert et al. 2018, arXiv:1802.09464).
    :param random_action_hold: as ``algo.random_action_hold``.
    :param target_policy_noise_schedule: as ``algo.target_policy_noise_schedule``, for TD3. The critic needs the noise
        in the beginning; in the end it hides precise actions.
    :param action_l2: as ``algo.action_l2`` (arXiv:1802.09464); actions span [-1, 1].
    :param bc_weight: as ``demos.bc_weight``. The cloning loss is the mean squared distance of the actor's actions from
        those of the batch's demonstrations (Nair et al. 2018, arXiv:1709.10089).
    :param q_filter: as ``demos.q_filter`` (arXiv:1709.10089).
    :param overlap: update while the environments step, see :class:`~rlher.algos.training_loop.TrainingLoop`.
    :param compile: run the losses through ``torch.compile``.
    :param precision: ``float32``, or ``bf16``: compute wide layers of the losses in bf16; weights stay float32.
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
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ignored}
        return ", ".join(f"{name}={value}" for name, value in values.items() if value != getattr(UpdateOptions, name))
