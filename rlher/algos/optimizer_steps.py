"""Gradients, optimizer steps and target updates, each in one call for all parameters."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch as th

from rlher.algos.compilation import compile_with_fallback
from rlher.algos.update_batch import UpdateBatch

Gradients = Sequence[Any]
"""Gradients of some tensors, None for those that are not used."""


class FusedOptimizer:
    """Takes an optimizer's steps along given gradients. A step of plain Adam on the CPU is one fused call.

    ``Optimizer.step`` of ``Adam(fused=True)`` takes 1.3 to 2.3 times as long, and imports torch's compiler, which takes
    1.2 seconds. Other optimizers, and Adam with options such as ``amsgrad``, use their own ``step``.

    :ivar parameters: what the optimizer changes, in the order in which ``step`` takes the gradients: its parameters
        without those that the author of a network has frozen.
    """

    def __init__(self, optimizer: th.optim.Optimizer) -> None:
        self.optimizer = optimizer
        every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.parameters: list[th.Tensor] = [parameter for parameter in every if parameter.requires_grad]
        is_plain = not any(optimizer.param_groups[0].get(name) for name in ("amsgrad", "maximize", "weight_decay"))
        on_cpu = all(parameter.device.type == "cpu" and parameter.is_contiguous() for parameter in self.parameters)
        self.is_fused = type(optimizer) is th.optim.Adam and is_plain and on_cpu

    @th.no_grad()
    def step(self, gradients: Iterable[th.Tensor | None]) -> None:
        """Take one step. Parameters without a gradient stay unchanged, such as an unused part of a user's network."""
        pairs = zip(self.parameters, gradients, strict=True)
        # The fused call requires gradient and parameter to have the same memory layout.
        given = [(parameter, gradient.contiguous()) for parameter, gradient in pairs if gradient is not None]
        if not self.is_fused:
            for parameter, gradient in given:
                parameter.grad = gradient
            self.optimizer.step()
            self.optimizer.zero_grad()  # another optimizer may have some of these parameters
            return
        group = self.optimizer.param_groups[0]
        parameters, contiguous = map(list, zip(*given, strict=True))
        states = [self._state(parameter) for parameter in parameters]
        averages = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        steps = [state["step"] for state in states]
        th._foreach_add_(steps, 1)
        beta1, beta2 = group["betas"]
        options = {"lr": group["lr"], "eps": group["eps"], "weight_decay": 0.0, "amsgrad": False, "maximize": False}
        th._fused_adam_(parameters, contiguous, averages, squares, [], steps, beta1=beta1, beta2=beta2, **options)

    def _state(self, parameter: th.Tensor) -> dict[str, th.Tensor]:
        """Return the optimizer's state of a parameter; create it as Adam's first step does."""
        state: dict[str, th.Tensor] = self.optimizer.state[parameter]
        if not state:
            averages = {name: th.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            state.update({"step": th.zeros(()), **averages})
        return state


def make_minimizer(
    loss_fn: Callable[[UpdateBatch], tuple[th.Tensor, Any]],
    optimizer: FusedOptimizer,
    compile: bool,
    max_norm: float | None = None,
) -> Callable[[UpdateBatch], tuple[th.Tensor, Any]]:
    """Return a function that takes one optimizer step along the gradient of a loss.

    For a batch it returns the loss, and what else ``loss_fn`` returns, both without gradients.

    :param loss_fn: returns a scalar loss, and a tensor or tensors by name. It changes nothing in place.
    :param compile: compile loss and gradient.
    :param max_norm: greatest norm of all gradients together; greater gradients are scaled down to it.
    """

    def gradients(batch: UpdateBatch) -> tuple[th.Tensor, Any, Gradients]:
        loss, others = loss_fn(batch)
        detached = others.detach() if isinstance(others, th.Tensor) else {key: x.detach() for key, x in others.items()}
        found: Gradients = th.autograd.grad(loss, optimizer.parameters, allow_unused=True)
        return loss.detach(), detached, found if max_norm is None else clip_gradients(found, max_norm)

    compute = compile_with_fallback(gradients) if compile else gradients

    def minimize(batch: UpdateBatch) -> tuple[th.Tensor, Any]:
        loss, others, found = compute(batch)
        optimizer.step(found)
        return loss, others

    return minimize


def clip_gradients(gradients: Gradients, max_norm: float) -> Gradients:
    """Return gradients scaled to a total norm of at most ``max_norm``, as ``clip_grad_norm_`` does in place."""
    norm = th.nn.utils.get_total_norm([gradient for gradient in gradients if gradient is not None])
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return [None if gradient is None else gradient * scale for gradient in gradients]


@th.no_grad()
def polyak_update(params: Sequence[th.Tensor], target_params: Sequence[th.Tensor], tau: float) -> None:
    """Move each target parameter towards its source by the share ``tau``.

    This does the same as ``stable_baselines3.common.utils.polyak_update``, in one call for all tensors.
    """
    if params:
        th._foreach_lerp_(list(target_params), list(params), tau)
