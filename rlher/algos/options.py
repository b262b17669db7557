"""Options of the algorithms that Stable-Baselines3 does not have."""

from dataclasses import dataclass, field, fields
from typing import Any

from rlher.algos.target_q_bounds import Bounds


def _of_the_fast_update(default: Any) -> Any:
    """Declare an option that changes what is learnt, and that Stable-Baselines3's ``train`` would ignore."""
    return field(default=default, metadata={"needs_fast_update": True})


@dataclass(frozen=True)
class AlgorithmOptions:
    """Options of an algorithm; the defaults are Stable-Baselines3's behaviour.

    They are not saved with a model: pass them to ``load(path, options=...)`` again. :mod:`rlher.config.algorithms`
    describes the config keys ``algo.…``, and :mod:`rlher.config.her` the keys ``demos.…``.

    :param target_q_bounds: lowest and highest value of the target network, either may be None; see
        :func:`~rlher.algos.target_q_bounds.resolve_target_q_bounds`.
    :param random_action: as ``algo.random_action``, besides the action noise (OpenAI baselines' ``random_eps``;
        Plappert et al. 2018, arXiv:1802.09464).
    :param random_action_hold: as ``algo.random_action_hold``.
    :param target_policy_noise_schedule: as ``algo.target_policy_noise_schedule``, for TD3. The critic needs the noise
        in the beginning; in the end it hides precise actions.
    :param action_l2: as ``algo.action_l2`` (arXiv:1802.09464); actions span [-1, 1].
    :param bc_weight: as ``demos.bc_weight``. The cloning loss is the mean squared distance of the actor's actions from
        those of the batch's demonstrations (Nair et al. 2018, arXiv:1709.10089).
    :param q_filter: as ``demos.q_filter`` (arXiv:1709.10089).
    :param overlap: update while the environments step, see :class:`~rlher.algos.training_loop.GoalAlgorithm`.
    :param compile: run the losses through ``torch.compile``.
    :param bf16: compute wide layers of the losses in bf16; weights stay float32.
    """

    target_q_bounds: Bounds | None = None
    random_action: float = 0.0
    random_action_hold: int = 1
    target_policy_noise_schedule: str = _of_the_fast_update("constant")
    action_l2: float = _of_the_fast_update(0.0)
    bc_weight: float = _of_the_fast_update(0.0)
    q_filter: bool = True
    overlap: bool = False
    compile: bool = False
    bf16: bool = False

    def changed(self) -> dict[str, Any]:
        """Return the options by name that do not have their default."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(AlgorithmOptions, name)}

    def changed_for_fast_update(self) -> list[str]:
        """Return ``name=value`` of the options in use that change what is learnt, and that need the fast update."""
        changed = self.changed()
        return [f"{each.name}={changed[each.name]}" for each in fields(self) if each.metadata and each.name in changed]
