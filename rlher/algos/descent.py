"""Steps of an optimiser, without what torch.optim does around them."""

from collections.abc import Iterable, Sequence

import torch as th

CAN_FUSE = tuple(int(part) for part in th.__version__.split(".")[:2]) >= (2, 4)  # on a CPU


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
        self._state: list[list[th.Tensor]] = []
        self._count: th.Tensor | None = None  # of steps, which those of the parameters are views of

    def step(self, gradients: Iterable[th.Tensor]) -> None:
        """Take one step."""
        # The fused call walks through memory, so gradient and parameter must be laid out alike.
        found = [gradient.contiguous() for gradient in gradients]
        if not self.fused or not self._linked():
            for parameter, gradient in zip(self.parameters, found, strict=True):
                parameter.grad = gradient
            self.optimizer.step()
            return
        group = self.optimizer.param_groups[0]
        averages, squares, steps = self._state
        assert self._count is not None
        beta1, beta2 = group["betas"]
        with th.no_grad():
            self._count.add_(1)
            th._fused_adam_(
                self.parameters,
                found,
                averages,
                squares,
                [],
                steps,
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _linked(self) -> bool:
        """Tell whether the optimiser has a state, which its first step makes, and find it where it is a new one."""
        state = self.optimizer.state
        first = state.get(self.parameters[0])
        if not first:
            return False
        if not self._state or self._state[0][0] is not first["exp_avg"]:
            names = ("exp_avg", "exp_avg_sq", "step")
            self._count = th.stack([state[parameter]["step"] for parameter in self.parameters])
            for parameter, count in zip(self.parameters, self._count, strict=True):
                state[parameter]["step"] = count
            self._state = [[state[parameter][name] for parameter in self.parameters] for name in names]
        return True
