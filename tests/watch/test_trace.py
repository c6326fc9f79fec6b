"""A trace opens in Perfetto: its events are of the format, and arrows have both ends."""

from collections import Counter
from typing import Any

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
