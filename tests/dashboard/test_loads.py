"""What the last minute went into: of trainers that live and die, and of servers' slots."""

import msgspec

from paceline.dashboard.loads import (
    MOST_CELLS,
    MOST_KEPT,
    MOST_SHOWN,
    SPAN_S,
    LastMinute,
    Loads,
    WholeRun,
    hosts_of,
)
from paceline.messages.server import SlotLoad
from paceline.messages.shared import SpentTime
from paceline.messages.watching import ProcessStatus
from tests.dashboard.test_picture import trainer


def busy(n: int, *spent: float) -> ProcessStatus:
    return msgspec.structs.replace(trainer(n), spent=SpentTime(*spent))


def server(*load: SlotLoad, sent: int = 0) -> ProcessStatus:
    counters = {"part-0.gradient_bytes_sent": sent, "part-1.gradient_bytes_sent": sent}
    counters |= {"part-0.value_bytes_sent": 7 * sent, "duplicates": 99}
    return ProcessStatus(
        "server",
        "server-0",
        1,
        9,
        "host",
        "",
        "ready",
        0,
        0,
        load=load,
        counters=counters,
    )


def test_the_shares_of_a_trainers_time_are_those_of_the_last_minute() -> None:
    loads = Loads()
    for second in range(200):  # it computes for 100 s, then waits for others
        spent = (1.0, min(second, 100), 0.0, max(0, second - 100))
        loads.note([busy(0, *spent)], float(second))

    assert loads.times([busy(0)])["of"] == {"trainer-0": [0, 0, 0, 1]}


def test_who_takes_anothers_place_begins_at_nothing() -> None:
    minute = LastMinute()
    minute.note({"trainer-0": (50.0, 3.0)}, 0.0)
    minute.note({"trainer-0": (4.0, 4.0)}, 10.0)

    told = minute.of("trainer-0")
    assert told is not None
    assert told.grown == (4.0, 4.0)
    assert minute.of("trainer-1") is None


def test_of_a_run_that_has_ended_the_shares_are_of_all_of_it() -> None:
    run = WholeRun(5.0)
    run.note({"trainer-0": [0.0, 1.0, 0.0, 0.0]}, 10.0)
    run.note({"trainer-0": [1.0, 5.0, 0.0, 0.0], "trainer-1": [0, 0, 0, 0]}, 15.0)
    run.note({"trainer-0": [0.5, 1.0, 1.0, 0.0]}, 20.0)  # another process, from zero

    assert run.times()["of"] == {"trainer-0": [0.15, 0.5, 0.1, 0.0]}
    assert run.times()["is_whole"]


def test_of_a_run_that_has_ended_servers_have_their_last_words() -> None:
    run = WholeRun(5.0)
    run.note_joined("server-0", 10.0)
    last = server(SlotLoad(0, 1.0, 3), SlotLoad(1, 2.0, 1), sent=100)

    [told] = run.servers([last, busy(0)], 20.0)
    assert (told["busy"], told["longest"]) == (0.2, 3)
    assert (told["in_per_s"], told["out_per_s"]) == (20, 70)
    assert run.servers([last], 10.0) == []


def test_no_run_fills_the_memory_of_who_looks_at_it() -> None:
    run = WholeRun()
    for number in range(3 * MOST_KEPT):
        run.note({f"trainer-{number}": [0.0] * 4}, float(number))
        run.note_joined(f"server-{number}", float(number))

    assert len(run._told) == MOST_KEPT
    assert len(run._first) == len(run._joined) == MOST_KEPT


def test_no_more_is_kept_than_the_last_minute_needs() -> None:
    minute = LastMinute()
    for second in range(1000):
        minute.note({"trainer-0": (float(second),)}, float(second))

    told = minute.of("trainer-0")
    assert told is not None
    assert SPAN_S <= told.lasted_s < SPAN_S + 10
    assert len(minute._kept) < 20


def test_of_many_trainers_those_that_wait_least_are_shown_with_the_mean_of_all() -> None:
    loads = Loads()
    crowd = [busy(n, 0.0, 0.0, 0.0, 0.0) for n in range(1000)]
    loads.note(crowd, 0.0)
    crowd = [busy(n, 0.0, 1.0, 0.0, 9.0) for n in range(1000)]
    crowd[777] = busy(777, 0.0, 10.0, 0.0, 0.0)
    loads.note(crowd, 10.0)

    times = loads.times(crowd)

    assert len(times["of"]) == MOST_SHOWN
    assert times["of"]["trainer-777"] == [0, 1, 0, 0]
    assert times["number"] == 1000
    assert times["mean"] == [0, 0.1009, 0, 0.8991]


def test_a_servers_slots_are_shown_with_how_busy_they_were() -> None:
    loads = Loads()
    loads.note([server(SlotLoad(0, 1.0, 40), SlotLoad(3, 5.0, 1))], 0.0)
    now = server(SlotLoad(0, 3.0, 2), SlotLoad(3, 5.0, 1), sent=500)
    loads.note([now], 10.0)

    [told] = loads.servers([now, trainer(0)])

    assert told["cells"] == [[0, 0.2, 40], [3, 0.0, 1]]
    assert (told["busy"], told["longest"]) == (0.2, 40)
    assert (told["in_per_s"], told["out_per_s"]) == (100, 350)


def test_how_long_a_queue_was_is_forgotten_after_a_minute() -> None:
    loads = Loads()
    for second, longest in ((0.0, 40), (30.0, 2), (SPAN_S + 1, 1)):
        now = server(SlotLoad(0, 0.0, longest))
        loads.note([now], second)

    assert loads.servers([now])[0]["longest"] == 2


def test_of_very_many_slots_the_busiest_of_neighbors_are_shown() -> None:
    loads = Loads()
    number = 4 * MOST_CELLS
    loads.note([server(*(SlotLoad(n, 0.0, 0) for n in range(number)))], 0.0)
    now = server(*(SlotLoad(n, float(n % 4), n % 3) for n in range(number)))
    loads.note([now], 10.0)

    cells = loads.servers([now])[0]["cells"]

    assert len(cells) == MOST_CELLS
    assert cells[0] == [3, 0.3, 2]


def test_which_roles_are_where_is_told_if_there_are_several_hosts() -> None:
    there = [trainer(0), msgspec.structs.replace(trainer(1), host="")]
    assert hosts_of(there) == []

    there += [msgspec.structs.replace(trainer(2), host="b", state="waiting"), server()]

    assert hosts_of(there) == [
        {
            "host": "b",
            "others": "",
            "trainers": "trainer-2",
            "waiting": 1,
        },
        {
            "host": "host",
            "others": "server-0",
            "trainers": "trainer-0",
            "waiting": 0,
        },
    ]
