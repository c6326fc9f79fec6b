"""What a user sees while a job runs."""

import io

import msgspec
import pytest

from paceline.messages import JobStatus, ProcessStatus, QueueStatus
from paceline.watch.progress import Bar, Lines, open_show
from paceline.watch.pulse import Rate, one_line


def status(records: int, total: int = 20_000, state: str = "running") -> JobStatus:
    trainer = ProcessStatus("trainer", "trainer-0", 1, 7, "host", "", "ready", "", 0, 0)
    server = ProcessStatus("server", "server-0", 2, 8, "host", "", "ready", "", 0, 0)
    return JobStatus(
        state=state,
        queue=QueueStatus(0, 0, 0, 0, 1),
        pace="sync",
        processes=(trainer, server),
        epochs=1,
        records=records,
        tasks_done=0,
        tasks_failed=0,
        steps=0,
        metrics={"loss": 0.69314, "auc": None},
        total_records=total,
        timeline=0,
        cut=0,
        counters={},
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_tells_it_all() -> None:
    assert one_line(status(10_240), 4120.4, restarts=1, seconds=12.3) == (
        "12 s  10,240 of 20,000 records (51 %)  epoch 2  4,120 records/s  "
        "loss 0.6931  auc not finite  trainers 1  restarts 1"
    )


def test_a_line_tells_how_far_an_evaluation_is() -> None:
    queue = QueueStatus(todo=5, pending=2, done=12, failed=1, epoch=0)
    evaluating = msgspec.structs.replace(status(10_240), kind="evaluate", queue=queue)
    assert one_line(evaluating, 0.0, restarts=0, seconds=12.3) == (
        "12 s  evaluate: 13 of 20 tasks  loss 0.6931  auc not finite  trainers 1"
    )


def test_a_line_is_silent_about_what_is_not_known() -> None:
    assert one_line(status(7, total=0, state="starting"), 0.0, 0, 0.0).startswith(
        "0 s  7 records  starting  epoch 2  0 records/s"
    )


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    for second in range(20):
        rate.note(second * 100 if second < 10 else 1000 + (second - 10) * 300, second)

    assert rate.per_second() == pytest.approx(300.0)


def test_the_rate_starts_afresh_after_a_return_to_a_cut() -> None:
    rate = Rate()
    for now, records in ((0.0, 1000), (1.0, 2000), (2.0, 500)):
        rate.note(records, now)
    assert rate.per_second() == 0.0

    rate.note(600, 3.0)

    assert rate.per_second() == 100.0


def test_lines_come_every_few_seconds_only() -> None:
    output = io.StringIO()
    lines = Lines(output)
    for tenth in range(121):
        lines.show(status(tenth), 0, 50 + tenth / 10)
    lines.say("trainer-0 ended with signal SIGKILL")
    lines.close()

    assert [line.split("  ")[0] for line in output.getvalue().splitlines()] == [
        "5 s",
        "10 s",
        "trainer-0 ended with signal SIGKILL",
    ]


def test_lines_in_somebody_elses_terminal_say_whose_they_are() -> None:
    output = io.StringIO()
    Lines(output, "paceline: ").say("the job's folder is runs/mine")
    assert output.getvalue() == "paceline: the job's folder is runs/mine\n"


def test_a_terminal_gets_a_bar_without_color_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    terminal = Terminal()
    bar = open_show(terminal)
    assert isinstance(bar, Bar)
    bar.show(status(10_240), 0, 1.0)
    bar.say("trainer-0 ended with [signal] SIGKILL")
    bar.close()

    shown = terminal.getvalue()
    assert "trainer-0 ended with [signal] SIGKILL" in shown
    assert "\x1b[3" not in shown


def test_anything_else_gets_lines() -> None:
    assert isinstance(open_show(io.StringIO()), Lines)
