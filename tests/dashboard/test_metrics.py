"""Figures for programs: as a scrape reads them, with names that stay."""

import msgspec

from paceline.dashboard.metrics import MOST_OWN, Figures, Tally, exposition
from paceline.messages.watching import JobStatus
from tests.dashboard.test_picture import standing, trainer


def told(status: JobStatus | None, *, is_silent: bool = False) -> str:
    happened = Tally()
    lost = {"event": "TrainerLost", "t": 5.0, "kind": "exited"}
    for event in (lost, lost, {"event": "CutCommitted", "t": 7.5, "cut": 1}):
        happened.add(event)
    figures = Figures("job", status, is_silent, False, happened, {"trainer-1": 2.5})
    return exposition(figures).decode()


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
        'paceline_wire_bytes_total{direction="to_servers",part="0",stage="sent"} 640.0',
        'paceline_pushes_total{part="",what="duplicates"} 3.0',
        'paceline_push_age_updates_total{age="2-3",part="1"} 7.0',
        "paceline_over 0.0",
        'paceline_members{role="trainer",state="joined"} 1.0',
    } <= set(lines)


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
