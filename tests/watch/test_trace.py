"""A trace opens in Perfetto: its events are of the format, and arrows have both ends."""

from collections import Counter
from typing import Any

import pytest

from paceline.watch.trace import TraceEvent, TraceReader

NEEDED = {  # {phase: what such an event has, beside ph, name, pid, tid and ts}
    "X": {"dur"},
    "i": {"s"},
    "s": {"id", "cat"},
    "f": {"id", "cat", "bp"},
    "b": {"id", "cat"},
    "e": {"id", "cat"},
    "C": {"args"},
    "M": {"args"},
}


def happened(t: float, event: str, **fields: Any) -> dict[str, Any]:
    return {"t": 1000.0 + t, "event": event, **fields}


def committed(t: float, number: int, came_s: dict[str, float]) -> dict[str, Any]:
    contributions = [{"trainer": name, "incarnation": 1} for name in came_s]
    told = {"part": 0, "round": number, "records": 64, "contributions": contributions}
    return happened(t, "RoundCommitted", **told, came_s=list(came_s.values()))


def lease(t: float, trainer: str, task: int) -> dict[str, Any]:
    told = {"token": task + 1, "key": [0, 0, task]}
    return happened(t, "LeaseGranted", trainer=trainer, lease=told)


STORY = [
    happened(0.0, "RunBegun"),
    happened(0.1, "ServerJoined", server="server-0", incarnation=1),
    happened(0.2, "TrainerJoined", trainer="trainer-0", incarnation=2),
    happened(0.2, "TrainerJoined", trainer="trainer-1", incarnation=3),
    happened(0.3, "CutBegun", cut=0),
    happened(0.4, "CutCommitted", cut=0),
    lease(0.5, "trainer-0", 0),
    lease(0.5, "trainer-1", 1),
    committed(1.0, 1, {"trainer-0": 0.0, "trainer-1": 0.3}),
    committed(2.0, 2, {"trainer-0": 0.1, "trainer-1": 0.0}),
    happened(2.0, "TaskDone", key=[0, 0, 0]),
    happened(2.1, "TrainerLost", trainer="trainer-1", kind="exit", reason="killed"),
    happened(2.2, "PaceChanged", paces={"0": "ssp:3"}),
    happened(2.5, "log", trainer="trainer-0", records=64, numbers={"loss": 0.5}),
    committed(3.0, 3, {"trainer-0": 0.0}),
    {"event": "torn"},
]


def trace_of(events: list[dict[str, Any]]) -> list[TraceEvent]:
    reader = TraceReader()
    return [*(told for event in events for told in reader.read(event)), *reader.end()]


def of_phase(trace: list[TraceEvent], phase: str) -> list[TraceEvent]:
    return [event for event in trace if event["ph"] == phase]


def test_all_events_are_of_the_format_and_all_roles_and_threads_have_names() -> None:
    trace = trace_of(STORY)
    for event in trace:
        assert event.keys() >= {"ph", "name", "pid", "tid", "ts"} | NEEDED[event["ph"]]
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0
    names = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
    assert set(names.values()) == {"coordinator", "server-0", "trainer-0", "trainer-1"}
    threads = {(e["pid"], e["tid"]) for e in trace if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in of_phase(trace, "X")} <= threads


def test_each_contributor_of_each_round_has_one_arrow_to_its_commit() -> None:
    trace = trace_of(STORY)
    starts = {event["id"]: event for event in of_phase(trace, "s")}
    ends = {event["id"]: event for event in of_phase(trace, "f")}
    assert (
        len(of_phase(trace, "s")) == len(of_phase(trace, "f")) == len(starts) == 2 + 2 + 1
    )
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        for edge in (start, ends[number]):  # an arrow hangs on slices
            assert any(
                (one["pid"], one["tid"]) == (edge["pid"], edge["tid"])
                and one["ts"] <= edge["ts"] <= one["ts"] + one["dur"]
                for one in of_phase(trace, "X")
            )


def test_who_came_first_waits_longest_and_the_last_one_not_at_all() -> None:
    waits = [e for e in trace_of(STORY) if e["ph"] == "X" and e["name"] == "round 1"]
    assert sorted(round(event["dur"]) for event in waits) == [0, 300_000, 300_000]


def test_a_death_ends_a_life_and_what_it_held() -> None:
    trace = trace_of(STORY)
    [life] = [e for e in of_phase(trace, "X") if e["name"] == "trainer-1"]
    assert (life["ts"], life["dur"]) == (200_000, 1_900_000)
    assert life["args"]["reason"] == "killed"
    edges = Counter((event["id"], event["ph"]) for event in trace if event["ph"] in "be")
    assert edges == Counter([(1, "b"), (1, "e"), (2, "b"), (2, "e")])


def test_a_clock_that_is_set_back_breaks_no_trace() -> None:
    trace = trace_of([*STORY, happened(-50.0, "Scaled", trainers=2)])
    [scaled] = [e for e in trace if e["name"] == "2 trainers are wanted"]
    assert scaled["ts"] == 3_000_000


def task_edges(trace: list[TraceEvent]) -> list[tuple[int, str, float, str]]:
    """Of each edge of a task: its lease, b or e, when, and how it ended."""
    edges = [event for event in trace if event["ph"] in "be"]
    return [(e["id"], e["ph"], e["ts"] / 1e6, e["args"].get("how", "")) for e in edges]


def test_a_task_that_is_handed_back_ends_there() -> None:
    back = happened(2.0, "TaskReturned", key=[0, 0, 0], first=3, reason="handed back")
    trace = trace_of(
        [lease(1.0, "trainer-0", 0), back, happened(9.0, "Scaled", trainers=2)]
    )
    assert task_edges(trace) == [(1, "b", 0.0, ""), (1, "e", 1.0, "TaskReturned")]


def test_a_task_that_is_granted_again_was_over_for_who_had_it() -> None:
    again = happened(
        3.0, "LeaseGranted", trainer="trainer-1", lease={"token": 7, "key": [0, 0, 0]}
    )
    done = happened(4.0, "TaskDone", key=[0, 0, 0])
    assert task_edges(trace_of([lease(1.0, "trainer-0", 0), again, done])) == [
        (1, "b", 0.0, ""),
        (1, "e", 2.0, "granted again"),
        (7, "b", 2.0, ""),
        (7, "e", 3.0, "TaskDone"),
    ]


@pytest.mark.parametrize(
    "left",
    [
        happened(2.0, "TimelineLeft", reason="tracked objects"),
        happened(2.0, "CutSkipped", reason="damaged"),
        happened(2.0, "ServerLost", server="server-0", kind="exit", reason="killed"),
    ],
)
def test_a_return_to_a_checkpoint_ends_tasks_and_drops_the_checkpoint_under_way(
    left: dict[str, Any],
) -> None:
    begun = happened(1.5, "CutBegun", cut=4)
    late = happened(9.0, "Scaled", trainers=2)
    trace = trace_of([lease(1.0, "trainer-0", 0), begun, left, late])
    name = left["event"]
    assert task_edges(trace) == [(1, "b", 0.0, ""), (1, "e", 1.0, name)]
    [cut] = [event for event in of_phase(trace, "X") if event["name"] == "checkpoint 4"]
    assert cut["dur"] == 500_000
    assert cut["args"] == {"how": "dropped", "reason": name}


def test_a_checkpoint_of_which_nothing_more_is_heard_ends_where_the_next_begins() -> None:
    """A coordinator that begins again knows nothing of it."""
    first, second = happened(1.0, "CutBegun", cut=4), happened(3.0, "CutBegun", cut=5)
    trace = trace_of([first, second, happened(4.0, "CutCommitted", cut=5)])
    cuts = {e["name"]: (e["dur"], e["args"]["how"]) for e in of_phase(trace, "X")}
    assert cuts == {
        "checkpoint 4": (2_000_000, "dropped"),
        "checkpoint 5": (1_000_000, "CutCommitted"),
    }
