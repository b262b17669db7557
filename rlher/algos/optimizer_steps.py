"""Optimizer steps along the gradient of a loss, and target updates, each in one call for all parameters."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch as th
from torch.optim.swa_utils import get_ema_multi_avg_fn

from rlher.algos.compilation import compile_with_fallback

LossFunction = Callable[..., tuple[th.Tensor, Any]]
"""Returns a loss with one element, and a tensor or tensors by name. It changes nothing in place."""

Gradients = Sequence[Any]
"""Gradients of some tensors, None for those that are not used."""


class OptimizerStep:
    """The step of an optimizer along the gradient of a loss.

    :param loss_fn: the loss, of which :meth:`take` passes on the arguments.
    :param compile: compile loss and gradient.
    :param max_norm: greatest norm of all gradients together; greater gradients are scaled down to it.
    """

    def __init__(
        self,
        loss_fn: LossFunction,
        optimizer: th.optim.Optimizer,
        compile: bool = False,
        max_norm: float | None = None,
    ) -> None:
        self.loss_fn, self.optimizer, self.max_norm = loss_fn, optimizer, max_norm
        every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.parameters = [parameter for parameter in every if parameter.requires_grad]  # not those a user has frozen
        self._step_along = _adam_step if _is_plain_adam(optimizer, self.parameters) else _step_of_optimizer
        self._compute = compile_with_fallback(self._loss_and_gradients) if compile else self._loss_and_gradients

    def take(self, *args: Any) -> tuple[th.Tensor, Any]:
        """Compute the loss, take one step, and return what the loss function returns, without gradients."""
        loss, others, gradients = self._compute(*args)
        # Parameters without a gradient stay unchanged, such as an unused part of a user's network.
        pairs = zip(self.parameters, gradients, strict=True)
        self._step_along(self.optimizer, [(parameter, each) for parameter, each in pairs if each is not None])
        return loss, others

    def _loss_and_gradients(self, *args: Any) -> tuple[th.Tensor, Any, Gradients]:
        loss, others = self.loss_fn(*args)
        detached = others.detach() if isinstance(others, th.Tensor) else {key: x.detach() for key, x in others.items()}
        gradients: Gradients = th.autograd.grad(loss, self.parameters, allow_unused=True)
        if self.max_norm is not None:
            gradients = clip_gradients(gradients, self.max_norm)
        return loss.detach(), detached, gradients


def clip_gradients(gradients: Gradients, max_norm: float) -> Gradients:
    """Return gradients scaled to a total norm of at most ``max_norm``, as ``clip_grad_norm_`` does in place."""
    norm = th.nn.utils.get_total_norm([gradient for gradient in gradients if gradient is not None])
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return [None if gradient is None else gradient * scale for gradient in gradients]


def _is_plain_adam(optimizer: th.optim.Optimizer, parameters: Iterable[th.Tensor]) -> bool:
    """Return whether :func:`_adam_step` can take an optimizer's step."""
    has_options = any(optimizer.param_groups[0].get(name) for name in ("amsgrad", "maximize", "weight_decay"))
    on_cpu = all(parameter.device.type == "cpu" and parameter.is_contiguous() for parameter in parameters)
    return type(optimizer) is th.optim.Adam and not has_options and on_cpu


@th.no_grad()
def _adam_step(optimizer: th.optim.Optimizer, used: Sequence[tuple[th.Tensor, th.Tensor]]) -> None:
    """Take a step of plain Adam on the CPU in one call.

    ``Optimizer.step`` of ``Adam(fused=True)`` takes 1.3 to 2.3 times as long, and imports torch's compiler, which takes
    1.2 seconds. With ``torch.optim.adam.adam``, a small network's update takes 12 % longer.
    """
    states = [optimizer.state[parameter] for parameter, _ in used]
    for (parameter, _), state in zip(used, states, strict=True):
        if not state:  # as in Adam's first step
            state |= {"step": th.zeros(()), "exp_avg": th.zeros_like(parameter), "exp_avg_sq": th.zeros_like(parameter)}
    group = optimizer.param_groups[0]
    beta1, beta2 = group["betas"]
    steps = [state["step"] for state in states]
    th._foreach_add_(steps, 1)
    th._fused_adam_(
        [parameter for parameter, _ in used],
        [gradient.contiguous() for _, gradient in used],  # the memory layout of the parameters, as the call requires
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
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


def _step_of_optimizer(optimizer: th.optim.Optimizer, used: Sequence[tuple[th.Tensor, th.Tensor]]) -> None:
    """Take a step with the optimizer's own ``step``."""
    for parameter, gradient in used:
        parameter.grad = gradient.contiguous()
    optimizer.step()
    optimizer.zero_grad()  # another optimizer may have some of these parameters


def polyak_update(params: Sequence[th.Tensor], target_params: Sequence[th.Tensor], tau: float) -> None:
    """Move each target parameter towards its source by the share ``tau``.

    This does the same as ``stable_baselines3.common.utils.polyak_update``, in one call for all tensors.
    """
    if params:
        get_ema_multi_avg_fn(1 - tau)(target_params, params, None)
