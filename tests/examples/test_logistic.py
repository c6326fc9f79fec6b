"""Logistic regression: its gradient, its steps, and the same weights in every model."""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from examples.classification import records, softmax

FOLDER = Path(__file__).parents[2] / "examples" / "classification"
MODELS = ("allreduce", "push-pull")
ITERATIONS, RIDGE = 12, 1e-2


@pytest.fixture
def logistic(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module; it imports what lies beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module("logistic")
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def small() -> tuple[records.Records, records.Records]:
    return records.load("drawn", seed=0)


def test_the_gradient_is_that_of_torch() -> None:
    features, labels = small()[0]
    weights = np.random.default_rng(0).normal(0, 0.1, (features.shape[1], 5))

    found = softmax.differentiate(features, labels, weights)

    asked = torch.from_numpy(weights).requires_grad_()
    scores = torch.from_numpy(features) @ asked
    loss = cross_entropy(scores, torch.from_numpy(labels), reduction="sum")
    loss.backward()
    np.testing.assert_allclose(found[:-2], asked.grad.numpy().ravel(), rtol=1e-9, atol=1e-9)
    assert found[-2:].tolist() == pytest.approx([loss.item(), len(labels)])


def test_gradients_of_parts_add_up_to_that_of_the_whole() -> None:
    features, labels = small()[0]
    weights = np.random.default_rng(1).normal(0, 0.1, (features.shape[1], 5))
    parts = [
        softmax.differentiate(features[a : a + 300], labels[a : a + 300], weights)
        for a in range(0, len(labels), 300)
    ]
    whole = softmax.differentiate(features, labels, weights)
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-10, atol=1e-9)


def test_the_descent_comes_to_where_the_gradient_is_nothing() -> None:
    features, labels = small()[0]
    descent = softmax.plain(features, labels, RIDGE, iterations=400)
    last = softmax.differentiate(features, labels, descent.weights)
    slope = last[:-2] / last[-1] + RIDGE * descent.weights.ravel()
    assert abs(slope).max() < 1e-7
    assert descent.losses[-1] < descent.losses[0] / 5


def test_scaled_features_know_nothing_of_the_test_records() -> None:
    draw = np.random.default_rng(2)
    features, labels = draw.normal(3, 2, (100, 4)), draw.integers(0, 2, 100)
    train, test = records.split(features, labels, seed=1)
    assert (len(train.labels), len(test.labels)) == (70, 30)
    np.testing.assert_allclose(train.features[:, :-1].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(train.features[:, :-1].std(0), 1)
    assert (train.features[:, -1] == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("trainers", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_comes_to_the_weights_of_the_plain_loop(
    model: str, trainers: int, logistic: ModuleType, run: Callable[..., list[Any]]
) -> None:
    train, test = small()
    problem = logistic.softmax.pose(*train, RIDGE)
    flags = argparse.Namespace(train=train, problem=problem, iterations=ITERATIONS, parts=4)

    def script(session: Any) -> Any:
        descent = logistic.softmax.Descent(problem)
        logistic.MODELS[model](session, descent, flags)
        return descent

    expected = softmax.plain(*train, RIDGE, ITERATIONS)
    for descent in run(script, trainers=trainers):
        np.testing.assert_allclose(descent.weights, expected.weights, rtol=1e-9, atol=1e-12)
        assert descent.losses == pytest.approx(expected.losses, rel=1e-12)
        assert softmax.accuracy(*test, descent.weights) > 0.98


def test_no_model_is_left_out(logistic: ModuleType) -> None:
    assert set(logistic.MODELS) == set(MODELS)
