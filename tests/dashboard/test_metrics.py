"""Figures for programs: as a scrape reads them, with names that stay."""

import msgspec

from paceline.dashboard.metrics import MOST_OWN, Figures, Tally, exposition
from paceline.messages.server import SlotLoad
from paceline.messages.shared import SpentTime
from paceline.messages.watching import JobStatus, ProcessStatus
from tests.dashboard.test_picture import standing, trainer

_SENT = 'direction="to_servers",part="0"'


def told(status: JobStatus | None, *, is_silent: bool = False) -> str:
    happened = Tally()
    lost = {"event": "TrainerLost", "t": 5.0, "kind": "exited"}
    for event in (lost, lost, {"event": "CutCommitted", "t": 7.5, "cut": 1}):
        happened.add(event)
    figures = Figures("job", status, is_silent, False, happened, {"trainer-1": 2.5})
    return exposition(figures).decode()


def server(name: str, counters: dict[str, int]) -> ProcessStatus:
    load = (SlotLoad(0, 3.0, 9), SlotLoad(4, 0.5, 2))
    told = {"load": load, "counters": counters}
    return ProcessStatus("server", name, 1, 9, "host", "", "ready", 0, 0, **told)


def test_events_and_status_are_counted() -> None:
    counters = {"part-0.gradient_bytes_sent": 640, "duplicates": 3}
    counters |= {"part-1.age.2-3": 7, "part-1.age.0": 1}
    job = msgspec.structs.replace(standing(trainer(1)), counters=counters)

    lines = told(job).splitlines()

    assert {
        "paceline_up 1.0",
        'paceline_records_total{trainer="trainer-1"} 64.0',
        'paceline_processes_lost_total{kind="exited",role="trainer"} 2.0',
        'paceline_round_waited_seconds_total{trainer="trainer-1"} 2.5',
        "paceline_checkpoint_timestamp_seconds 7.5",
        f'paceline_wire_bytes_total{{{_SENT},server="",stage="sent"}} 640.0',
        'paceline_pushes_total{part="",server="",what="duplicates"} 3.0',
        'paceline_push_age_updates_total{age="2-3",part="1",server=""} 7.0',
        "paceline_over 0.0",
        'paceline_members{role="trainer",state="joined"} 1.0',
    } <= set(lines)


def test_each_servers_load_and_bytes_are_its_own() -> None:
    counters = [{"part-0.gradient_bytes_sent": n, "merged": 1} for n in (600, 40)]
    job = standing(*(server(f"server-{n}", counters[n]) for n in (0, 1)))
    summed = {"part-0.gradient_bytes_sent": 640, "merged": 2, "late": 5}

    lines = told(msgspec.structs.replace(job, counters=summed)).splitlines()

    assert {
        f'paceline_wire_bytes_total{{{_SENT},server="server-0",stage="sent"}} 600.0',
        f'paceline_wire_bytes_total{{{_SENT},server="server-1",stage="sent"}} 40.0',
        'paceline_pushes_total{part="",server="server-1",what="merged"} 1.0',
        'paceline_pushes_total{part="",server="",what="late"} 5.0',
        'paceline_server_busy_seconds_total{server="server-0"} 3.5',
        'paceline_server_longest_queue{server="server-0"} 9.0',
    } <= set(lines)
    assert not any('server=""' in line and "wire" in line for line in lines)


def test_what_trainers_time_went_into_is_told_and_of_very_many_the_sum() -> None:
    spent = SpentTime(0.5, 2.0, 1.0, 0.25)
    crowd = [msgspec.structs.replace(trainer(n), spent=spent) for n in range(2)]
    name = "paceline_trainer_seconds_total"

    assert f'{name}{{spent_on="read",trainer="trainer-1"}} 0.5' in told(standing(*crowd))

    crowd *= MOST_OWN
    crowd = [msgspec.structs.replace(one, id=f"t-{n}") for n, one in enumerate(crowd)]
    lines = told(standing(*crowd)).splitlines()
    assert f'{name}{{spent_on="compute",trainer="all"}} {4.0 * MOST_OWN}' in lines
    assert sum(line.startswith(name) for line in lines) == 4


def test_who_does_not_answer_is_down() -> None:
    assert "paceline_up 0.0" in told(standing(), is_silent=True)
    assert "paceline_up 0.0" in told(None)


def test_what_only_events_tell_is_left_out_where_there_are_none() -> None:
    text = exposition(Figures("job", standing(), False, True, None, {})).decode()

    assert "paceline_over 1.0" in text
    assert "paceline_up 0.0" in text
    assert not any(name in text for name in ("lost", "returns", "checkpoint", "waited"))


def test_of_very_many_trainers_those_that_cost_most_are_told() -> None:
    waited_s = {f"trainer-{n}": float(n) for n in range(2 * MOST_OWN)}

    text = exposition(Figures("job", None, False, False, Tally(), waited_s)).decode()

    told = [line for line in text.splitlines() if "round_waited_seconds_total{" in line]
    assert len(told) == MOST_OWN
    assert any(f'"trainer-{2 * MOST_OWN - 1}"' in line for line in told)


def test_of_very_many_trainers_the_sum_is_told() -> None:
    crowd = [trainer(n) for n in range(MOST_OWN + 1)]

    lines = told(standing(*crowd)).splitlines()

    records = [line for line in lines if line.startswith("paceline_records_total")]
    [(name, value)] = [line.split() for line in records]
    assert name == 'paceline_records_total{trainer="all"}'
    assert float(value) == 64 * sum(range(MOST_OWN + 1))
    assert not any(line.startswith("paceline_clock_steps{") for line in lines)
