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

from paceline.config import JobConfig
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.local import fresh_run_id
from paceline.watch.summary import Ending, Verdict

FOLDER = Path(__file__).parents[2] / "examples" / "clusters"
MODELS = ("allreduce", "push-pull", "regroup-allgather", "rotation")
K, ITERATIONS = 4, 6
SAVED_AT, DIES_AT = 17, 19  # assignments, or meetings with a block

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


@pytest.mark.parametrize("model", MODELS)
def test_a_run_that_was_killed_goes_on_and_comes_to_the_same_bits(
    model: str, kmeans: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = make_flags(kmeans)
    lloyd = kmeans.lloyd
    start = lloyd.choose_start(flags.pixels, K, seed=0)
    num_calls = 0

    def run_once(*, is_resumed: bool) -> Any:
        nonlocal num_calls
        config = JobConfig(run=fresh_run_id(), servers=2)
        job = EmbeddedJob(config, tmp_path / "job", is_resumed=is_resumed)
        session, course = job.session("trainer-0"), kmeans.Course(start, len(flags.pixels))

        def dying(compute: Callable[..., Any]) -> Callable[..., Any]:
            def compute_until_dead(*arguments: Any) -> Any:
                nonlocal num_calls
                num_calls += 1
                if num_calls == SAVED_AT:
                    session.save()
                if num_calls == DIES_AT:
                    raise KeyboardInterrupt
                return compute(*arguments)

            return compute_until_dead

        with monkeypatch.context() as patch:
            patch.setattr(lloyd, "assign", dying(lloyd.assign))
            patch.setattr(lloyd.Nearest, "meet", dying(lloyd.Nearest.meet))
            try:
                kmeans.MODELS[model](session, course, flags)
            finally:
                session.membership._heartbeat.stop(timeout_s=10.0)  # dead, as its process
                job.close(Verdict(Ending.FAILED, "the power went"))
        return course

    with pytest.raises(KeyboardInterrupt):
        run_once(is_resumed=False)
    course = run_once(is_resumed=True)
    fit = lloyd.plain(flags.pixels, start, ITERATIONS)
    assert np.array_equal(course.centroids, fit.centroids)
    assert course.inertias == fit.inertias


def test_no_model_is_left_out(kmeans: ModuleType) -> None:
    assert set(kmeans.MODELS) == set(MODELS)
