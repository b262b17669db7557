"""Adam's step as one fused call on the optimizer's own state.

``torch.optim.Adam`` looks up parameters, groups and hooks in every step, which takes longer than the step itself for
small networks (docs/update_step.md). ``th._fused_adam_`` is private: if a later torch changes it, set ``CAN_FUSE`` to
False, which costs speed only; tests/algos/test_fused_adam.py compares every step with torch's.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch as th

CAN_FUSE = tuple(int(part) for part in th.__version__.split(".")[:2]) >= (2, 4)
"""Whether this torch has a fused Adam for the CPU."""


class AdamState(NamedTuple):
    """Adam's state, one tensor per parameter.

    :param all_steps: step counts in one tensor, of which ``steps`` are views, so that one call increments them.
    """

    all_steps: th.Tensor
    averages: list[th.Tensor]
    squares: list[th.Tensor]
    steps: list[th.Tensor]


class FusedAdam:
    """Steps of an optimizer along given gradients; for plain Adam on the CPU, one fused call.

    The state stays in the optimizer, so saved files and learning-rate schedules are unaffected. Other optimizers, and
    Adam with options such as ``amsgrad``, use their own ``step``.

    :param optimizer: of exactly these parameters.
    :param parameters: in the order in which ``step`` takes their gradients.
    """

    def __init__(self, optimizer: th.optim.Optimizer, parameters: Sequence[th.Tensor]) -> None:
        self.optimizer, self.parameters = optimizer, list(parameters)
        group = optimizer.param_groups[0]
        plain = not any(group.get(name) for name in ("amsgrad", "maximize", "weight_decay", "differentiable"))
        on_cpu = all(parameter.device.type == "cpu" for parameter in self.parameters)
        self.fused = type(optimizer) is th.optim.Adam and plain and on_cpu and CAN_FUSE
        self._state: AdamState | None = None

    def step(self, gradients: Iterable[th.Tensor]) -> None:
        """Take one step."""
        # The fused call requires gradient and parameter to have the same memory layout.
        contiguous = [gradient.contiguous() for gradient in gradients]
        if not self.fused:
            for parameter, gradient in zip(self.parameters, contiguous, strict=True):
                parameter.grad = gradient
            self.optimizer.step()
            return
        group, state = self.optimizer.param_groups[0], self._adam_state()
        beta1, beta2 = group["betas"]
        with th.no_grad():
            state.all_steps.add_(1)
            th._fused_adam_(
                self.parameters,
                contiguous,
                state.averages,
                state.squares,
                [],
                state.steps,
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _adam_state(self) -> AdamState:
        """Return the optimizer's state: created if missing, read again after ``load_state_dict`` has replaced it."""
        saved = self.optimizer.state
        if self._state is None or self._state.averages[0] is not saved[self.parameters[0]].get("exp_avg"):
            for parameter in self.parameters:
                if not saved[parameter]:  # as Adam's first step creates it
                    saved[parameter] = {
                        "step": th.zeros(()),
                        "exp_avg": th.zeros_like(parameter),
                        "exp_avg_sq": th.zeros_like(parameter),
                    }
            entries = [saved[parameter] for parameter in self.parameters]
            all_steps = th.stack([entry["step"] for entry in entries])
            for entry, view in zip(entries, all_steps, strict=True):
                entry["step"] = view
            self._state = AdamState(
                all_steps,
                averages=[entry["exp_avg"] for entry in entries],
                squares=[entry["exp_avg_sq"] for entry in entries],
                steps=[entry["step"] for entry in entries],
            )
        return self._state
