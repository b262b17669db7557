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

    :param optimizer: optimizer of exactly these parameters.
    :param parameters: parameters in the order in which ``step`` takes their gradients.
    """

    def __init__(self, optimizer: th.optim.Optimizer, parameters: Sequence[th.Tensor]) -> None:
        self.optimizer = optimizer
        self.parameters = list(parameters)
        is_plain = not any(optimizer.param_groups[0].get(name) for name in ("amsgrad", "maximize", "weight_decay"))
        on_cpu = all(parameter.device.type == "cpu" for parameter in self.parameters)
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


class GradientStep:
    """Takes steps of an optimizer along the gradient of a loss.

    :param loss_fn: function of a batch that returns a scalar loss, and further results: a tensor, or tensors by name.
        It changes nothing in place.
    :param weights: tensors by which the loss is differentiated.
    :param optimizer: optimizer of the parameters that belong to the weights.
    :param convert: function from gradients of the weights to gradients of the parameters.
    :param compile: whether to compile loss and gradient.
    """

    def __init__(
        self,
        loss_fn: Callable[[UpdateBatch], tuple[th.Tensor, Any]],
        weights: Sequence[th.Tensor],
        optimizer: FusedOptimizer,
        convert: Callable[[Gradients], Gradients] = list,
        compile: bool = False,
    ) -> None:
        def differentiate(batch: UpdateBatch) -> tuple[th.Tensor, Any, Gradients]:
            loss, results = loss_fn(batch)
            return loss.detach(), _detach(results), th.autograd.grad(loss, weights, allow_unused=True)

        self.optimizer = optimizer
        self._differentiate = compile_with_fallback(differentiate) if compile else differentiate
        self._convert = convert

    def __call__(self, batch: UpdateBatch) -> tuple[th.Tensor, Any]:
        """Take one step; return the loss and the further results, without gradients."""
        loss, results, gradients = self._differentiate(batch)
        self.optimizer.step(self._convert(gradients))
        return loss, results


def _detach(results: Any) -> Any:
    if isinstance(results, th.Tensor):
        return results.detach()
    return {name: value.detach() for name, value in results.items()}


@th.no_grad()
def polyak_update(params: Sequence[th.Tensor], target_params: Sequence[th.Tensor], tau: float) -> None:
    """Move each target parameter towards its source by the share ``tau``.

    This does the same as ``stable_baselines3.common.utils.polyak_update``, in one call for all tensors.
    """
    if params:
        th._foreach_lerp_(list(target_params), list(params), tau)
