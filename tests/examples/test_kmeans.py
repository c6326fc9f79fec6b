"""k-means: whichever model trainers work in, they come to the bits of the plain loop."""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "clusters"
MODELS = ("allreduce", "push-pull", "regroup-allgather", "rotation")
K, ITERATIONS = 4, 6

pytestmark = pytest.mark.slow


@pytest.fixture
def kmeans(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module; it imports what lies beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module("kmeans")
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def make_flags(kmeans: ModuleType) -> argparse.Namespace:
    pixels = kmeans.images.draw(200, seed=3).pixels
    return argparse.Namespace(pixels=pixels, k=K, iterations=ITERATIONS, parts=5, seed=0)


@pytest.mark.parametrize("trainers", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_comes_to_the_bits_of_the_plain_loop(
    model: str, trainers: int, kmeans: ModuleType, run: Callable[..., list[Any]]
) -> None:
    flags = make_flags(kmeans)
    start = kmeans.lloyd.choose_start(flags.pixels, K, seed=0)

    def script(session: Any) -> Any:
        course = kmeans.Course(start, len(flags.pixels))
        kmeans.MODELS[model](session, course, flags)
        return course

    courses = run(script, trainers=trainers)

    fit = kmeans.lloyd.plain(flags.pixels, start, ITERATIONS)
    for course in courses:
        assert np.array_equal(course.centroids, fit.centroids)
        assert course.inertias == fit.inertias


def test_no_model_is_left_out(kmeans: ModuleType) -> None:
    assert set(kmeans.MODELS) == set(MODELS)
