"""A few steps of one trainer are profiled, with what paceline does in them by name."""

import json
import logging
from collections import Counter
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.trainer.profiling import MOST_STEPS
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, share_line, stepper


def names_in(path: Path) -> Counter[str]:
    return Counter(
        str(event["name"]) for event in json.loads(path.read_text())["traceEvents"]
    )


def test_the_first_steps_are_in_the_trace_with_push_pull_and_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = FakeJob()
    job.folder = tmp_path
    path = tmp_path / "traces" / "trainer-0.pt.trace.json"
    with job.session() as session, caplog.at_level(logging.WARNING):
        model, optimizer = share_line(session)
        step, taken = stepper(model, optimizer), 0
        with session.profile(steps=2):
            for batch in session.batches(DATA, 2):
                step(batch)
                taken += 1
                assert path.exists() == (taken >= 2), taken
        assert taken > 3
    names = names_in(path)
    assert names["paceline::push"] == 2
    assert names["paceline::pull"] >= 1
    assert names["paceline::wait"] >= 1
    assert f"a profile of 2 steps is in {path}" in caplog.text


def test_a_second_profile_while_one_runs_is_refused_by_name(tmp_path: Path) -> None:
    job = FakeJob()
    job.folder = tmp_path
    with (
        job.session() as session,
        session.profile(),
        pytest.raises(UsageError, match="a profiler runs in this trainer already"),
        session.profile(),
    ):
        raise AssertionError("nothing begins")


def test_how_much_is_kept_is_bounded() -> None:
    with FakeJob().session() as session:
        for steps in (0, MOST_STEPS + 1):
            with (
                pytest.raises(UsageError, match=f"expected 1 to {MOST_STEPS} steps"),
                session.profile(steps),
            ):
                raise AssertionError("nothing begins")
