"""What a user sees while a job runs."""

import io
import sys
from types import SimpleNamespace

import msgspec
import pytest

from paceline.messages.watching import JobStatus, ProcessStatus, QueueStatus, Trained
from paceline.watch.progress import (
    CELL_LINES,
    CELL_LINES_AT_ONCE,
    Bar,
    CellOutput,
    Lines,
    open_show,
)
from paceline.watch.pulse import Growth, Rate, one_line, went_back


def status(records: int, total: int = 20_000, state: str = "running") -> JobStatus:
    trainer = ProcessStatus("trainer", "trainer-0", 1, 7, "host", "", "ready", 0, 0)
    server = ProcessStatus("server", "server-0", 2, 8, "host", "", "ready", 0, 0)
    return JobStatus(
        state=state,
        queue=QueueStatus(3, 1, 0, 0, 1),
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
        trained=Trained(1.0, 1.0, 0),
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_tells_it_all() -> None:
    assert one_line(status(10_240), 4120.4, restarts=1, seconds=12.3) == (
        "12 s  10,240 of 20,000 records (51 %)  epoch 2  4,120 records/s  "
        "loss 0.6931  auc not finite  trainers 1  restarts 1"
    )


def test_a_line_names_the_hosts_of_a_job_that_has_several() -> None:
    far = ProcessStatus("trainer", "trainer-1", 3, 9, "spot-7", "", "ready", 0, 0)
    one = status(10_240)
    several = msgspec.structs.replace(one, processes=(*one.processes, far, far))
    line = one_line(several, 4120.4, restarts=0, seconds=12.3)
    assert line.endswith("trainers 3 (host 1, spot-7 2)")


def evaluating(worked_off: int) -> JobStatus:
    return msgspec.structs.replace(
        status(20_000), kind="evaluate", stage_records=worked_off, stage_total=4_000
    )


def test_a_line_tells_how_far_an_evaluation_is() -> None:
    assert one_line(evaluating(2_600), 800.0, restarts=0, seconds=12.3) == (
        "12 s  evaluate: 2,600 of 4,000 records (65 %)  800 records/s  "
        "loss 0.6931  auc not finite  trainers 1"
    )


def test_a_line_is_silent_about_what_is_not_known() -> None:
    starting = status(7, total=0, state="starting")
    starting = msgspec.structs.replace(starting, trained=None)
    assert one_line(starting, 0.0, 0, 0.0).startswith(
        "0 s  7 records  starting  epoch 2  loss"
    )


def test_a_line_says_when_the_script_is_between_loops() -> None:
    between = msgspec.structs.replace(status(20_000), queue=QueueStatus(0, 0, 0, 0, 0))
    assert one_line(between, 0.0, 0, 9.0).startswith(
        "9 s  20,000 of 20,000 records (100 %)  epoch 1  no loop is running  loss"
    )


def on(timeline: int, cut: int, records: int) -> JobStatus:
    return msgspec.structs.replace(status(records), timeline=timeline, cut=cut)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (on(1, 3, 4_000), "checkpoint 3: about 6,240 records are trained again"),
        (on(1, 0, 0), "the beginning: about 10,240 records are trained again"),
        (on(2, 0, 240), "checkpoint 0: about 10,000 records are trained again"),
        (on(1, 3, 10_240), None),  # the pace has changed, or nothing was trained since
        (on(0, 3, 10_000), None),  # a count that falls otherwise is no return
    ],
)
def test_a_return_to_a_checkpoint_is_told_with_what_it_costs(
    now: JobStatus, told: str | None
) -> None:
    expected = None if told is None else f"all go back to {told}"
    assert went_back(on(0, 2, 10_240), now) == expected


def test_a_return_is_said_once_and_before_the_line_with_fewer_records() -> None:
    output = io.StringIO()
    lines = Lines(output)
    for second, seen in enumerate([on(4, 3, 10_240), *[on(5, 3, 4_000)] * 8]):
        lines.show(seen, 0, float(second))
    said = output.getvalue().splitlines()
    assert said[0] == "all go back to checkpoint 3: about 6,240 records are trained again"
    assert said[1].startswith("5 s  4,000 of 20,000 records")
    assert len(said) == 2


def test_a_count_that_grows_in_jumps_grows_evenly() -> None:
    growth = Growth(4.0)
    counts = [100 * round(n * 2.5) for n in range(20)]  # two rounds a second, or three
    told = [growth.add(float(n), count) for n, count in enumerate(counts)]

    assert told[0] is None
    assert all(rate is not None and 225 <= rate <= 275 for rate in told[4:])
    assert growth.add(20.0, 0) == 0.0, "all went back"
    assert growth.add(21.0, 300) == 300.0
    assert growth.add(21.0, 300) == 300.0, "two at one time"


def test_a_count_of_which_nobody_told_for_long_begins_to_grow_afresh() -> None:
    moments = ((0.0, 0), (1.0, 100), (10.5, 1050))
    patient, impatient = Growth(4.0), Growth(4.0, silence_s=9.0)

    assert [patient.add(*moment) for moment in moments] == [None, 100.0, 100.0]
    assert [impatient.add(*moment) for moment in moments] == [None, 100.0, None]


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    for second in range(20):
        records = second * 100 if second < 10 else 1000 + (second - 10) * 300
        rate.note(status(records), second)

    assert rate.per_second() == pytest.approx(300.0)


def test_the_rate_has_no_start_in_it() -> None:
    rate = Rate()
    for tenth in range(80):
        rate.note(msgspec.structs.replace(status(0), trained=None), tenth / 10)
    rate.note(status(0), 8.0)
    rate.note(status(500), 8.5)

    assert rate.per_second() == pytest.approx(1000.0)


def test_an_evaluation_has_a_rate_of_its_own() -> None:
    rate = Rate()
    rate.note(status(19_000), 1.0)
    rate.note(status(20_000), 2.0)
    rate.note(evaluating(0), 3.0)
    rate.note(evaluating(300), 4.0)

    assert rate.per_second() == pytest.approx(300.0)


def test_the_rate_starts_afresh_after_a_return_to_a_cut() -> None:
    rate = Rate()
    for now, records in ((0.0, 1000), (1.0, 2000), (2.0, 500)):
        rate.note(status(records), now)
    assert rate.per_second() == 0.0

    rate.note(status(600), 3.0)

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


def test_the_output_of_a_cell_is_what_was_said_and_how_the_job_stands_now() -> None:
    outputs: list[str] = []
    show = CellOutput(outputs.append)
    show.say("paceline: 2 trainers")
    show.show(status(1_024), 0, 10.0)
    show.show(status(2_048), 0, 10.1)  # a moment later: nothing is written
    show.show(status(10_240), 0, 12.0)
    assert len(outputs) == 3
    assert outputs[0] == "paceline: 2 trainers\nstarting"
    assert outputs[2].splitlines()[1].startswith("2 s  10,240 of 20,000 records (51 %)")

    show.close()
    assert outputs[-1] == "paceline: 2 trainers"


def test_the_output_of_a_cell_does_not_grow_without_end() -> None:
    outputs: list[str] = []
    show = CellOutput(outputs.append)
    for number in range(2 * CELL_LINES):
        show.say(f"line {number}")
    assert len(outputs) == CELL_LINES_AT_ONCE, "each of them is the whole cell"
    show.show(status(1_024), 0, 10.0)
    assert len(outputs[-1].splitlines()) == CELL_LINES + 1
    show.say("one more")
    assert "one more" in outputs[-1]


def test_in_a_kernel_of_a_notebook_the_cell_is_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[object] = []

    class Handle:
        def update(self, data: object, *, raw: bool) -> None:
            assert raw
            written.append(data)

    def display(data: object, *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        written.append(data)
        return Handle()

    shell = SimpleNamespace(kernel=object(), user_ns={})
    ipython = SimpleNamespace(
        get_ipython=lambda: shell, display=SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]  # a stand-in

    open_show(io.StringIO()).say("said")
    assert written == [{"text/plain": ""}, {"text/plain": "said\nstarting"}]

    del shell.kernel  # a terminal's
    assert isinstance(open_show(io.StringIO()), Lines)
