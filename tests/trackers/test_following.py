"""A job's events go into a tool once each, whoever is killed, until the job is over."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from paceline.errors import StoreError, UsageError
from paceline.timing import SystemClock
from paceline.trackers import parse_target
from paceline.trackers.following import TrackedJob
from paceline.trackers.mark import MarkFile
from paceline.trackers.points import Told
from paceline.trackers.tracker import Kept, RunEnd, TrackedRun
from tests.trackers.tracked import WrittenJob


class Notebook:
    """A tool that keeps all in memory, and is as exact as a file that is cut to a mark."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.run: TrackedRun | None = None
        self.ended: RunEnd | None = None
        self.fails_after: int | None = None
        self.is_gone = False

    def begin(self, run: TrackedRun, kept: Kept | None) -> bool:
        self.run = run
        del self.told[int(kept["size"]) if kept and not self.is_gone else 0 :]
        return kept is not None and not self.is_gone

    def write(self, told: Sequence[Told]) -> None:
        for one in told:
            if self.fails_after is not None and len(self.told) >= self.fails_after:
                raise StoreError("the tool fails")
            self.told.append(one)

    def settle(self) -> Kept:
        return {"size": len(self.told)}

    def end(self, end: RunEnd) -> None:
        self.ended = end

    def close(self) -> None:
        pass

    @property
    def losses(self) -> list[tuple[int, str, float]]:
        """What scripts have logged."""
        points = [point for told in self.told for point in told]
        return [tuple(p)[1:4] for p in points if getattr(p, "trainer", "")]


def followed(job: WrittenJob, notebook: Notebook, *, is_stopped: bool = False) -> bool:
    """The job is followed to its end; whether it was gone on with."""
    mark = MarkFile(job.job, "notebook", "")
    stop = threading.Event()
    with mark.hold():
        following = TrackedJob(job.job, notebook, mark, SystemClock())
        try:
            goes_on = following.begin(by_trainer=False)
            while following.step():
                pass
            if not is_stopped:
                following.wait_over(stop)
        finally:
            following.close()
    return goes_on


def test_an_ended_job_is_written_with_how_it_was_started_and_how_it_ended(
    tmp_path: Path,
) -> None:
    job, notebook = WrittenJob(tmp_path), Notebook()
    job.logs(10)
    job.ends()

    assert not followed(job, notebook)

    assert notebook.losses == job.logged
    assert notebook.run is not None
    assert notebook.run.parameters["trainers"] == 2
    assert notebook.run.parameters["script"] == "train.py"
    assert notebook.ended == RunEnd(
        "finished", "all is done", {"records": 640.0, "steps": 10.0}
    )


def test_whoever_goes_on_doubles_and_loses_nothing(tmp_path: Path) -> None:
    job, notebook = WrittenJob(tmp_path), Notebook()
    job.logs(5)
    followed(job, notebook, is_stopped=True)
    job.logs(5)
    notebook.fails_after = 8  # in the middle of what is marked together
    with pytest.raises(StoreError, match="the tool fails"):
        followed(job, notebook, is_stopped=True)
    notebook.fails_after = None
    job.logs(2)
    job.ends()

    assert followed(job, notebook)

    assert notebook.losses == job.logged


def test_a_run_that_was_removed_from_the_tool_is_written_anew(tmp_path: Path) -> None:
    job, notebook = WrittenJob(tmp_path), Notebook()
    job.logs(5)
    job.ends()
    followed(job, notebook)
    notebook.is_gone = True

    assert not followed(job, notebook)

    assert notebook.losses == job.logged


def test_a_job_is_followed_while_it_runs_and_to_the_summary_behind_its_end(
    tmp_path: Path,
) -> None:
    job, notebook = WrittenJob(tmp_path), Notebook()
    job.lives()
    follower = threading.Thread(target=followed, args=(job, notebook))
    follower.start()
    job.logs(30)
    job.ends("failed")
    follower.join(30)

    assert not follower.is_alive()
    assert notebook.losses == job.logged
    assert notebook.ended is not None
    assert notebook.ended.status == "failed"


def test_events_that_were_gone_between_two_looks_are_told(tmp_path: Path) -> None:
    job, notebook = WrittenJob(tmp_path), Notebook()
    mark = MarkFile(job.job, "notebook", "")
    job.logs(1)
    with mark.hold():
        following = TrackedJob(job.job, notebook, mark, SystemClock())
        following.begin(by_trainer=False)
        while following.step():
            pass
        job.moves_on_after(300)
        job.logs(20)
        while following.step():
            pass
        following.close()

    assert notebook.losses[0] == job.logged[0]
    assert notebook.losses[-1] == job.logged[-1]
    assert len(notebook.losses) < len(job.logged), "some are gone, in fact"
    text = "events before this one were gone before they were tracked"
    assert [text in str(told) for told in notebook.told].count(True) == 1


def test_a_second_follower_is_refused_by_name(tmp_path: Path) -> None:
    job = WrittenJob(tmp_path)
    mark = MarkFile(job.job, "notebook", "")
    with mark.hold(), pytest.raises(UsageError, match="another process tracks this job"):
        followed(job, Notebook())


def test_a_link_where_a_mark_is_written_leads_nowhere(tmp_path: Path) -> None:
    """A job folder may come from somebody else."""
    job, mine = WrittenJob(tmp_path), tmp_path / "mine"
    mine.write_text("precious")
    job.logs(3)
    job.ends()
    mark = MarkFile(job.job, "notebook", "").path
    mark.parent.mkdir()
    for link in (mark.with_suffix(".new"), mark.with_name(f"{mark.name}.partial")):
        link.symlink_to(mine)

    followed(job, Notebook())

    assert mine.read_text() == "precious"
    assert mark.exists()
    assert not mark.is_symlink()


def test_a_damaged_mark_says_what_to_do(tmp_path: Path) -> None:
    job = WrittenJob(tmp_path)
    mark = MarkFile(job.job, "notebook", "")
    mark.path.parent.mkdir()
    mark.path.write_text("{")

    with pytest.raises(StoreError, match="remove it, and what the tool has of this run"):
        followed(job, Notebook())


@pytest.mark.parametrize("text", ["", "tensorbord", "tensorboard:", "a:tensorboard"])
def test_a_tool_that_is_none_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="expected tensorboard"):
        parse_target(text)


def test_targets_read_as_they_are_typed() -> None:
    for text in ("tensorboard:logs/all", "wandb", "trackio:p", "mlflow:http://host:5000"):
        assert str(parse_target(text)) == text
