"""The network for many rates at once is the network that torch would make of it."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from benchmarks.pace.dial import problem
from benchmarks.pace.reading import network


@pytest.fixture
def values() -> problem.Values:
    """Three different networks."""
    return np.concatenate([problem.initial(seed) for seed in range(3)])


def test_gradients_are_those_of_torch(values: problem.Values) -> None:
    inputs, labels = problem.images(problem.HELD_OUT, problem.HELD_OUT_SEED)
    found = problem.gradient(values, inputs[:16], labels[:16])
    for seed in range(3):
        model = network(seed)
        wanted = torch.from_numpy(inputs[:16]), torch.from_numpy(labels[:16])
        cross_entropy(model(wanted[0]), wanted[1]).backward()
        gradients = [parameter.grad.t().flatten() for parameter in model.parameters()]
        assert np.allclose(found[seed], torch.cat(gradients), atol=1e-6)


def test_the_held_out_loss_is_that_of_torch(values: problem.Values) -> None:
    found = [
        torch.from_numpy(one)
        for one in problem.images(problem.HELD_OUT, problem.HELD_OUT_SEED)
    ]
    with torch.no_grad():
        wanted = [cross_entropy(network(n)(found[0]), found[1]).item() for n in range(3)]
    assert problem.loss(values) == pytest.approx(wanted, rel=1e-5)


def test_an_epoch_of_a_stream_has_every_image_once() -> None:
    orders = [problem.order(3, epoch) for epoch in range(2)]
    assert all(sorted(order) == list(range(problem.RECORDS)) for order in orders)
    assert list(orders[0]) != list(orders[1])
