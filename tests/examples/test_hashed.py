"""Hashed flights: ids, a step's changes, and every model as good as the plain loop."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tests.examples.loading import load


class Modules(NamedTuple):
    """Of the example."""

    delays: ModuleType
    hashed: ModuleType


@pytest.fixture
def example() -> Modules:
    return Modules(*load("classification", "delays", "hashed"))


def test_a_hash_knows_the_field_and_the_value(example: Modules) -> None:
    columns = [np.array([3, 3, 4]) for _ in range(5)]
    ids = example.delays.hashed(columns)
    assert ids.shape == (3, example.delays.NUM_FIELDS)
    assert ids.min() >= 0
    assert ids.max() < example.delays.NUM_IDS
    np.testing.assert_array_equal(ids[0], ids[1])
    assert len(np.unique(ids)) == 2 * example.delays.NUM_FIELDS


def test_what_is_held_out_is_the_same_everywhere_and_a_tenth(example: Modules) -> None:
    made_up = example.delays.made_up(6000)
    train, test = example.delays.held_out(made_up)
    assert len(train.labels) + len(test.labels) == 6000
    assert 500 < len(test.labels) < 700
    np.testing.assert_array_equal(test.ids, example.delays.held_out(made_up)[1].ids)


def test_the_gradient_is_that_of_torch(example: Modules) -> None:
    draw = np.random.default_rng(1)
    places = draw.integers(0, 9, (50, 8))
    labels = draw.integers(0, 2, 50).astype(np.float32)
    weights = draw.normal(0, 1, 9).astype(np.float32)
    slopes = np.zeros(9, np.float32)

    loss = example.hashed.differentiate(places, labels, weights, slopes)

    asked = torch.from_numpy(weights).requires_grad_()
    found = asked[torch.from_numpy(places)].sum(1)
    expected = binary_cross_entropy_with_logits(
        found, torch.from_numpy(labels), reduction="sum"
    )
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(slopes, asked.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_changes_of_steps_are_those_of_adagrad(example: Modules) -> None:
    rows = np.zeros((3, 2), np.float32)
    weights = torch.zeros(3, requires_grad=True)
    adagrad = torch.optim.Adagrad([weights], lr=0.1, eps=0)
    for slopes in ([1.0, 2.0, 3.0], [0.5, -1.0, 0.25]):
        rows += example.hashed.change(rows, np.array(slopes, np.float32), 0.1)
        weights.grad = torch.tensor(slopes)
        adagrad.step()
    np.testing.assert_allclose(rows[:, 0], weights.detach().numpy(), rtol=1e-5)


def test_a_row_without_a_gradient_stays_as_it_is(example: Modules) -> None:
    rows = np.zeros((2, 2), np.float32)
    found = example.hashed.change(rows, np.zeros(2, np.float32), 0.1)
    np.testing.assert_array_equal(found, rows)


def test_equal_scores_share_their_places(example: Modules) -> None:
    labels = np.array([0, 1, 0, 1], np.float32)
    assert example.hashed.auc(labels, np.array([0, 0, 0, 0])) == 0.5
    assert example.hashed.auc(labels, np.array([0, 1, 0, 0])) == 0.75


@pytest.mark.slow
@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("model", ["allreduce", "no-sync", "push-pull"])
def test_every_model_knows_which_flights_are_late(
    model: str, trainers: int, example: Modules, run: Callable[..., list[Any]]
) -> None:
    train, test = example.delays.load("made-up")
    work = example.hashed.Work(train, batch_size=256, epochs=4)

    def script(session: Any) -> Any:
        running = example.hashed.MODELS[model](session, work)
        losses = list(running.losses)
        return running.rows(), losses

    for rows, _ in run(script, trainers=trainers):
        found = example.hashed.scores(test.ids, rows)
        assert example.hashed.auc(test.labels, found) > 0.82
        assert example.hashed.log_loss(test.labels, found) < 0.55


@pytest.mark.parametrize("name", ["allreduce", "no-sync", "push-pull"])
def test_the_command_line_knows_every_model(name: str, example: Modules) -> None:
    [logistic] = load("classification", "logistic")
    assert name in logistic.FLIGHT_MODELS
    assert set(logistic.FLIGHT_MODELS) == set(example.hashed.MODELS)
