"""The list of a folder's jobs: which are in it, and that none holds up another."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.dashboard import Jobs, holds_jobs
from paceline.dashboard.door import VisitError
from paceline.dashboard.listing.folders import (
    BEGIN_S,
    MOST_LISTED,
    FoundJobs,
    ReadJob,
    find_jobs,
    read_job,
)
from paceline.dashboard.listing.jobs import (
    ASK_EVERY_S,
    FIND_SHARE,
    LEFT_S,
    LOOK_EVERY_S,
    MOST_LOOKED_AT,
)
from paceline.errors import TransportError
from paceline.launch.job import JobDir
from paceline.messages.watching import JobStatus
from paceline.timing import Clock, ManualClock, SystemClock
from tests.dashboard.folders import begun, ended, gone_pid, running
from tests.dashboard.showing import LIMIT_S, until
from tests.watch.test_progress import status

NOW_T = 2e9
JOBS = "paceline.dashboard.listing.jobs"

Answer = Callable[[JobDir, Clock], JobStatus]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def jobs(tmp_path: Path, clock: ManualClock) -> Iterator[Jobs]:
    made = Jobs(tmp_path, clock, lambda: NOW_T)
    yield made
    made.close()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """How running jobs answer."""

    def so(answer: Answer) -> None:
        monkeypatch.setattr(f"{JOBS}.ask_status", answer)

    so(lambda _, __: status(10_240))
    return so


def listed(jobs: Jobs) -> dict[str, Any]:
    jobs.look()
    told: dict[str, Any] = msgspec.json.decode(jobs.beat.told)
    return told


def row_of(jobs: Jobs, name: str) -> dict[str, Any]:
    [row] = [row for row in listed(jobs)["rows"] if row["name"] == name]
    found: dict[str, Any] = row
    return found


def later(clock: ManualClock, seconds: float = LOOK_EVERY_S) -> None:
    clock.advance(seconds)


def unanswered() -> int:
    return sum(one.name == "paceline-asking" for one in threading.enumerate())


@pytest.mark.usefixtures("answers")
def test_running_ones_are_first_then_the_newest(jobs: Jobs, tmp_path: Path) -> None:
    ended(tmp_path, "old", 10.0)
    ended(tmp_path, "new", 30.0, "failed")
    running(tmp_path, "runs", 5.0)
    running(tmp_path, "died", 20.0, gone_pid())
    begun(tmp_path, "begins", NOW_T - BEGIN_S / 2)
    begun(tmp_path, "late", 7.0)

    rows = listed(jobs)["rows"]

    told = [(row["name"], row["kind"], row.get("code")) for row in rows]
    assert told == [
        ("begins", "runs", None),
        ("runs", "runs", None),
        ("new", "ended", 1),
        ("died", "died", None),
        ("old", "ended", 0),
        ("late", "died", None),
    ]
    assert "go on with: paceline run --resume" in rows[3]["note"]


def test_of_two_hundred_folders_those_are_read_that_have_changed(
    jobs: Jobs, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(job: JobDir, *rest: Any) -> ReadJob:
        read.append(job.path.name)
        return read_job(job, *rest)

    monkeypatch.setattr(f"{JOBS}.read_job", noted)
    folders = [ended(tmp_path, f"job-{n}", 100.0 + n) for n in range(MOST_LISTED)]
    assert len(listed(jobs)["rows"]) == len(read) == MOST_LISTED
    read.clear()
    folders[7].summary.write_bytes(folders[7].summary.read_bytes() + b" ")
    later(clock)

    assert len(listed(jobs)["rows"]) == MOST_LISTED
    assert read == ["job-7"]


def test_a_folder_that_takes_long_to_go_through_is_gone_through_less_often(
    jobs: Jobs, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_s: list[float] = []

    def slow(root: Path) -> FoundJobs:
        begun_s.append(clock.now_s())
        clock.advance(3.0)
        return find_jobs(root)

    monkeypatch.setattr(f"{JOBS}.find_jobs", slow)
    for _ in range(1 + int(FIND_SHARE * 3.0 / LOOK_EVERY_S)):
        jobs.look()
        later(clock)

    first_s, second_s = begun_s
    assert second_s - first_s >= FIND_SHARE * 3.0


def test_how_a_job_ended_is_read_once_until_it_changes(
    jobs: Jobs, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    real = JobDir.read_summary
    monkeypatch.setattr(JobDir, "read_summary", lambda job: read.append(1) or real(job))
    job = ended(tmp_path, "job", 10.0)
    for _ in range(3):
        first = jobs.beat.told
        row_of(jobs, "job")
        later(clock)
    assert len(read) == 1
    assert jobs.beat.told is first, "what has not changed is not told again"

    job.summary.write_bytes(job.summary.read_bytes().replace(b"640", b"1280"))

    assert row_of(jobs, "job")["records"] == 1280


@pytest.mark.timeout(20)
def test_a_folder_with_a_link_or_a_pipe_for_a_file_says_so_and_is_not_opened(
    jobs: Jobs, clock: ManualClock, tmp_path: Path
) -> None:
    job = ended(tmp_path, "job", 10.0)
    job.events.write_text("")
    assert row_of(jobs, "job")["kind"] == "ended"
    for path, make, told in (
        (job.summary, os.mkfifo, "expected a file, found a pipe"),
        (job.events, lambda path: path.symlink_to("/etc/passwd"), "found a link"),
    ):
        kept = path.rename(tmp_path / "kept")
        make(path)
        later(clock)

        assert told in row_of(jobs, "job")["note"]
        with pytest.raises(VisitError, match=told) as refused:
            jobs.enter("job")
        assert refused.value.status == 403
        kept.rename(path)
        later(clock)
        assert row_of(jobs, "job")["kind"] == "ended"


def test_new_jobs_appear_and_deleted_ones_go(
    jobs: Jobs, clock: ManualClock, tmp_path: Path
) -> None:
    assert not holds_jobs(tmp_path)
    assert listed(jobs)["rows"] == []
    ended(tmp_path, "job", 10.0)
    later(clock)
    assert row_of(jobs, "job")["records"] == 640
    assert holds_jobs(tmp_path)

    shutil.rmtree(tmp_path / "job")
    later(clock)
    assert listed(jobs)["rows"] == []

    tmp_path.rmdir()
    later(clock)
    assert "cannot be read: No such file" in listed(jobs)["trouble"]
    tmp_path.mkdir()


def test_a_job_that_runs_is_asked_now_and_then(
    jobs: Jobs, clock: ManualClock, tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    asked: list[int] = []

    def answer(_: JobDir, __: Clock) -> JobStatus:
        asked.append(1)
        return status(1000 * len(asked))

    answers(answer)
    job = running(tmp_path, "job", 10.0)
    jobs.look()
    until("the first", lambda: row_of(jobs, "job").get("records") == 1000)
    assert "rate" not in row_of(jobs, "job")
    later(clock)
    jobs.look()
    until("the second", lambda: row_of(jobs, "job").get("rate") == 1000.0)
    later(clock, ASK_EVERY_S / 2)
    jobs.look()
    assert len(asked) == 2
    later(clock, ASK_EVERY_S / 2)
    jobs.look()
    until("the third", lambda: row_of(jobs, "job").get("records") == 3000)

    job.run_file.unlink()
    ended(tmp_path / "..", tmp_path.name + "/other", 10.0)
    (tmp_path / "other" / "summary.json").rename(job.summary)
    row = row_of(jobs, "job")
    assert (row["kind"], row["records"], row["lasted_s"]) == ("ended", 640, 12.5)


@pytest.mark.timeout(20)
def test_who_does_not_answer_is_shown_so_and_holds_up_nobody(
    jobs: Jobs, clock: ManualClock, tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    let_go = threading.Event()

    def answer(job: JobDir, _: Clock) -> JobStatus:
        if job.path.name.startswith("dead"):
            let_go.wait(LIMIT_S)
            raise TransportError("nobody answers")
        return status(10_240)

    answers(answer)
    for n in range(20):
        running(tmp_path, f"dead-{n}", 10.0)
    running(tmp_path, "lives", 5.0)

    jobs.look()
    until("its answer", lambda: row_of(jobs, "lives").get("records") == 10_240)
    later(clock, 12.0)
    row = row_of(jobs, "dead-7")

    assert (row["kind"], row["silent_s"]) == ("runs", 12)
    assert unanswered() == 20, "a look waits for none, and asks each of them once"
    let_go.set()
    until("the end of questions", lambda: not unanswered())
    assert row_of(jobs, "dead-7")["note"] == "nobody answers"


def test_a_job_that_is_resumed_begins_anew(
    jobs: Jobs, clock: ManualClock, tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    def silent(_: JobDir, __: Clock) -> JobStatus:
        raise TransportError("nobody answers")

    answers(silent)
    job = running(tmp_path, "job", 10.0)
    jobs.look()
    until("its failure", lambda: not unanswered())
    later(clock, 2.0)
    assert row_of(jobs, "job")["silent_s"] == 2

    answers(lambda _, __: status(10))
    os.utime(job.config, (20.0, 20.0))
    jobs.look()

    until("its answer", lambda: row_of(jobs, "job").get("records") == 10)
    assert "silent_s" not in row_of(jobs, "job")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "job/", "/etc", "other"])
def test_no_name_opens_but_one_of_the_list(jobs: Jobs, tmp_path: Path, name: str) -> None:
    ended(tmp_path, "job", 10.0)
    jobs.look()

    with pytest.raises(VisitError, match="no job of this name") as refused:
        jobs.enter(name)
    assert refused.value.status == 404


def observing() -> int:
    return sum(one.name == "paceline-telling" for one in threading.enumerate())


def test_a_job_has_an_observer_while_somebody_looks(
    jobs: Jobs, clock: ManualClock, tmp_path: Path
) -> None:
    ended(tmp_path, "job", 10.0)
    jobs.look()
    assert not observing(), "nobody has looked yet"

    first, second = jobs.enter("job"), jobs.enter("job")
    assert first is second
    jobs.leave(first)
    later(clock, 2 * LEFT_S)
    jobs.look()
    assert jobs.enter("job") is first, "one page is still open"
    jobs.leave(first)
    jobs.leave(second)
    later(clock, 2 * LEFT_S)
    jobs.look()

    until("its end", lambda: not observing())
    assert jobs.enter("job") is not first


def test_so_many_are_looked_at_and_no_more(
    jobs: Jobs, clock: ManualClock, tmp_path: Path
) -> None:
    names = [f"job-{n}" for n in range(MOST_LOOKED_AT + 1)]
    for name in names:
        ended(tmp_path, name, 10.0)
    jobs.look()
    looked_at = [jobs.enter(name) for name in names[:-1]]

    with pytest.raises(VisitError, match="close the page of one") as refused:
        jobs.enter(names[-1])
    assert refused.value.status == 503

    later(clock)
    jobs.leave(looked_at[3])
    jobs.enter(names[-1])
    until("the end of one", lambda: observing() == MOST_LOOKED_AT)


@pytest.mark.usefixtures("answers")
def test_figures_are_of_those_that_ran_while_they_were_looked_at(
    jobs: Jobs, tmp_path: Path
) -> None:
    ended(tmp_path, "before", 10.0)
    job = running(tmp_path, '<a> "b"', 10.0)
    jobs.look()
    until(
        "its answer", lambda: not unanswered() and "records" in row_of(jobs, job.path.name)
    )

    lines = jobs.metrics().decode().splitlines()
    label = 'job_name="<a> \\"b\\""'
    assert f"paceline_up{{{label}}} 1.0" in lines
    assert f"paceline_records_done{{{label}}} 10240.0" in lines
    assert not any('"before"' in line for line in lines)

    job.write_run(msgspec.structs.replace(job.read_run(), pid=gone_pid()))
    jobs.look()
    lines = jobs.metrics().decode().splitlines()
    assert {f"paceline_up{{{label}}} 0.0", f"paceline_over{{{label}}} 0.0"} <= set(lines)
    assert not any(line.startswith("paceline_records_done") for line in lines)


def test_a_list_of_its_own_goes_on_by_itself(tmp_path: Path) -> None:
    ended(tmp_path, "job", 10.0)
    jobs = Jobs(tmp_path, SystemClock())
    jobs.start()
    assert msgspec.json.decode(jobs.beat.told)["rows"], "it is known at once"
    ended(tmp_path, "other", 20.0)
    until("the other", lambda: len(msgspec.json.decode(jobs.beat.told)["rows"]) == 2)
    jobs.close()
