"""A step is the optimiser's own."""

import copy

import pytest
import torch as th

from rlher.algos.fused_adam import Descent

KINDS = [
    (th.optim.Adam, {"lr": 1e-2}),
    (th.optim.Adam, {"lr": 1e-2, "eps": 1e-3, "betas": (0.5, 0.9)}),
    (th.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    (th.optim.AdamW, {"lr": 1e-2}),
    (th.optim.SGD, {"lr": 1e-2, "momentum": 0.9}),
]


def make(kind, options):
    th.manual_seed(0)
    parameters = [th.nn.Parameter(th.randn(4, 3)), th.nn.Parameter(th.randn(5))]
    return parameters, kind(parameters, **options)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_steps_are_the_optimisers(kind, options) -> None:
    (mine, optimizer), (other, reference) = make(kind, options), make(kind, options)
    descent = Descent(optimizer, mine)
    for number in range(12):
        if number == 4:
            for each in (optimizer, reference):
                each.param_groups[0]["lr"] = 5e-3
        if number == 8:  # as after loading a file
            optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
        gradients = [th.randn(3, 4).mT, th.randn(5)]  # the first not laid out as its parameter is
        descent.step(gradients)
        for parameter, gradient in zip(other, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
    for found, expected in zip(mine, other, strict=True):
        assert th.allclose(found, expected, atol=1e-6)
    for key, expected in reference.state_dict()["state"].items():
        for name, value in expected.items():
            found = optimizer.state_dict()["state"][key][name]
            assert value is found is None or th.allclose(found, value, atol=1e-6)
