"""FusedAdam takes the same steps as the optimizer it wraps."""

import copy

import pytest
import torch as th

from rlher.algos.fast_update import FusedAdam

OPTIMIZERS = [
    (th.optim.Adam, {"lr": 1e-2}),
    (th.optim.Adam, {"lr": 1e-2, "eps": 1e-3, "betas": (0.5, 0.9)}),
    (th.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    (th.optim.AdamW, {"lr": 1e-2}),
    (th.optim.SGD, {"lr": 1e-2, "momentum": 0.9}),
]


def make(optimizer_class, options):
    th.manual_seed(0)
    parameters = [th.nn.Parameter(th.randn(4, 3)), th.nn.Parameter(th.randn(5))]
    return parameters, optimizer_class(parameters, **options)


@pytest.mark.parametrize(("optimizer_class", "options"), OPTIMIZERS)
def test_steps_equal_the_optimizers(optimizer_class, options) -> None:
    (ours, optimizer), (theirs, reference) = make(optimizer_class, options), make(optimizer_class, options)
    fused = FusedAdam(optimizer, ours)
    for step in range(12):
        if step == 4:
            for each in (optimizer, reference):
                each.param_groups[0]["lr"] = 5e-3
        if step == 8:  # as when a checkpoint is loaded
            optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
        gradients = [th.randn(3, 4).mT, th.randn(5)]  # the first has another memory layout than its parameter
        fused.step(gradients)
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
    for found, expected in zip(ours, theirs, strict=True):
        assert th.allclose(found, expected, atol=1e-6)
    for key, expected in reference.state_dict()["state"].items():
        for name, value in expected.items():
            found = optimizer.state_dict()["state"][key][name]
            assert value is found is None or th.allclose(found, value, atol=1e-6)
