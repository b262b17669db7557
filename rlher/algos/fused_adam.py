"""Steps of an optimiser, without what torch.optim does around them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch as th

CAN_FUSE = tuple(int(part) for part in th.__version__.split(".")[:2]) >= (2, 4)  # on a CPU


class AdamState(NamedTuple):
    """What Adam keeps, parameter by parameter.

    :param all_steps: ``steps`` in one tensor, which they are views of, so that one call counts them all.
    """

    all_steps: th.Tensor
    averages: list[th.Tensor]
    squares: list[th.Tensor]
    steps: list[th.Tensor]


class Descent:
    """Takes steps of an optimiser along gradients that are handed to it.

    A step of Adam is one fused call on the optimiser's own state, so files and schedules stay as they are; looking for
    parameters, groups and hooks anew each time takes longer than the step itself for small networks. Other optimisers,
    and Adam's less usual options, go through their own ``step``.

    :param optimizer: of exactly these parameters.
    :param parameters: in the order in which their gradients will come.
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
        # The fused call walks through memory, so gradient and parameter must be laid out alike.
        found = [gradient.contiguous() for gradient in gradients]
        if not self.fused:
            for parameter, gradient in zip(self.parameters, found, strict=True):
                parameter.grad = gradient
            self.optimizer.step()
            return
        group, state = self.optimizer.param_groups[0], self._adam_state()
        beta1, beta2 = group["betas"]
        with th.no_grad():
            state.all_steps.add_(1)
            th._fused_adam_(
                self.parameters,
                found,
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
        """Return the optimiser's state: made where there is none yet, found anew where it is another one."""
        of = self.optimizer.state
        if self._state is None or self._state.averages[0] is not of[self.parameters[0]].get("exp_avg"):
            for parameter in self.parameters:
                if not of[parameter]:  # as Adam's own first step makes it
                    of[parameter] = {
                        "step": th.zeros(()),
                        "exp_avg": th.zeros_like(parameter),
                        "exp_avg_sq": th.zeros_like(parameter),
                    }
            each = [of[parameter] for parameter in self.parameters]
            all_steps = th.stack([own["step"] for own in each])
            for own, view in zip(each, all_steps, strict=True):
                own["step"] = view
            self._state = AdamState(
                all_steps,
                averages=[own["exp_avg"] for own in each],
                squares=[own["exp_avg_sq"] for own in each],
                steps=[own["step"] for own in each],
            )
        return self._state
