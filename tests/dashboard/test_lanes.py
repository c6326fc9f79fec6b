"""Lanes: who was there, who died and came back, and what happened to the job."""

from paceline.dashboard import lanes as module
from paceline.dashboard.lanes import Lanes, Stay

Event = dict[str, object]


def told(*events: tuple[float, Event]) -> Lanes:
    lanes = Lanes()
    for at_s, event in events:
        lanes.add(at_s, event)
    return lanes


def joined(trainer: str) -> Event:
    return {"event": "TrainerJoined", "trainer": trainer, "incarnation": 1}


def lost(kind: str, role: str) -> Event:
    why = {"kind": "exited", "reason": f"{role} ended with signal 9"}
    return {"event": f"{kind.capitalize()}Lost", kind: role, **why}


def test_a_trainer_dies_and_comes_back() -> None:
    lanes = told((1, joined("trainer-0")), (5, lost("trainer", "trainer-0")))
    lanes.add(7, joined("trainer-0"))

    assert lanes.as_list() == [
        {
            "id": "trainer-0",
            "spans": [
                [1, 5, "died", "exited: trainer-0 ended with signal 9"],
                list(Stay(7)),
            ],
        }
    ]
    assert not lanes.marks


def test_a_lost_server_is_a_return_of_all() -> None:
    server = {"event": "ServerJoined", "server": "server-1"}
    lanes = told((0, server), (3, lost("server", "server-1")))

    assert [mark.kind for mark in lanes.marks] == ["return"]


def test_what_happened_last_is_told_the_newest_first_and_bounded() -> None:
    lanes = told(
        (0, joined("trainer-0")),
        (1, {"event": "CutCommitted", "cut": 1}),
        (2, {"event": "Scaled", "trainers": 3}),
        (5, lost("trainer", "trainer-0")),
    )
    assert lanes.latest == [
        (5, "trainer-0 died (exited: trainer-0 ended with signal 9)"),
        (2, "3 trainers are wanted"),
    ]

    for n in range(2 * module.MOST_LATEST):
        lanes.add(6 + n, {"event": "Scaled", "trainers": n})
    assert len(lanes.latest) == module.MOST_LATEST
    assert lanes.latest[0][1] == f"{n} trainers are wanted"


def test_who_leaves_has_not_died_and_an_end_ends_all() -> None:
    left = {"event": "TrainerLeft", "trainer": "trainer-1", "is_done": True}
    lanes = told((0, joined("trainer-0")), (0, joined("trainer-1")), (4, left))
    lanes.close(9)

    ends = {lane["id"]: lane["spans"][0][1:3] for lane in lanes.as_list()}
    assert ends == {"trainer-0": [9, "left"], "trainer-1": [4, "left"]}


def test_a_job_that_is_gone_on_with_begins_its_lanes_anew() -> None:
    begun = {"event": "RunBegun", "cut": {"cut": 3}}
    lanes = told((0, begun), (1, joined("trainer-0")), (8, begun))

    assert lanes.as_list()[0]["spans"] == [[1, 8, "left", ""]]
    assert [mark.text for mark in lanes.marks] == ["the job is gone on with from cut 3"]


def test_other_happenings_are_marks_of_the_job() -> None:
    lanes = told(
        (1, {"event": "CutCommitted", "cut": 2}),
        (2, {"event": "PaceChanged", "paces": {"0": "async", "1": "async"}}),
        (3, {"event": "Scaled", "trainers": 6}),
        (4, {"event": "LeaseGranted"}),
        (5, {"event": "EventsLost", "number": 7}),
        (6, {"event": "CoordinatorReturned"}),
    )

    kinds = ["cut", "pace", "scale", "lost", "coordinator"]
    assert [mark.kind for mark in lanes.marks] == kinds
    assert "has come back" in lanes.marks[4].text
    assert lanes.marks[3].text == "7 events before this could not be written"
    assert "async" in lanes.marks[1].text


def test_trainers_stand_before_servers_and_are_counted_as_people_do() -> None:
    lanes = told(
        (0, {"event": "ServerJoined", "server": "server-0"}),
        *((0.0, joined(f"trainer-{n}")) for n in (10, 2)),
    )

    assert [lane["id"] for lane in lanes.as_list()] == [
        "trainer-2",
        "trainer-10",
        "server-0",
    ]


def test_there_are_no_more_lanes_than_can_be_looked_at() -> None:
    lanes = told(*((0.0, joined(f"trainer-{n}")) for n in range(1000)))
    for n in range(1000):
        lanes.add(n, joined("trainer-0"))

    assert len(lanes.as_list()) == module.MOST_LANES
    assert lanes.left_out == 1000 - module.MOST_LANES
    assert len(lanes.as_list()[0]["spans"]) == module.MOST_SPANS


def test_who_dies_and_servers_have_lanes_before_who_never_died() -> None:
    crowd = module.MOST_LANES + 10
    lanes = told(*((float(n), joined(f"trainer-{n}")) for n in range(crowd)))
    last = f"trainer-{crowd - 1}"
    lanes.add(200, joined(last))
    lanes.add(300, lost("trainer", last))
    lanes.add(301, {"event": "ServerJoined", "server": "server-0"})
    lanes.add(302, joined(last))

    spans = {lane["id"]: lane["spans"] for lane in lanes.as_list()}
    assert len(spans) == module.MOST_LANES
    assert lanes.left_out == 11
    assert [stay[:3] for stay in spans[last]] == [[200, 300, "died"], [302, None, ""]]
    assert "server-0" in spans
    assert "trainer-0" in spans


def test_where_all_have_died_the_next_has_no_lane() -> None:
    lanes = Lanes()
    for n in range(module.MOST_LANES + 1):
        lanes.add(n, joined(f"trainer-{n}"))
        lanes.add(n, lost("trainer", f"trainer-{n}"))

    assert len(lanes.as_list()) == module.MOST_LANES
    assert lanes.left_out == 1


def test_checkpoints_push_no_other_marks_out() -> None:
    lanes = told((0, {"event": "Scaled", "trainers": 6}))
    for n in range(2 * module.MOST_CUTS):
        lanes.add(n, {"event": "CutCommitted", "cut": n})
    lanes.add(900, {"event": "Scaled", "trainers": 4})

    assert len(lanes.marks) == module.MOST_CUTS + 2
    assert lanes.marks[0].kind == lanes.marks[-1].kind == "scale"
