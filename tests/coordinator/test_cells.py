"""Cells through the coordinator's queue: leases, deaths, time, cuts, restarts."""

from typing import Any

import pytest

from paceline.config import Async
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import BlockAt, StageSpec, Waiting
from paceline.messages.trainer import AskLease, HandBack

# Cells of four batches of two records, but one that is empty; two rounds.
SIZES = (8, 8, 8, 8, 8, 0, 8, 8)
CELLS = RotationSpec(0, 2, 4, SIZES, 2)
STAGE = StageSpec(0, 56, 2, 8, 2, True, 0, "data", rotation=CELLS)


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(pace=Async(), trainers=2)
    job.open("trainer-0", "trainer-1", stage=STAGE)
    job.lease("trainer-0")  # the first lease waits for both
    job.lease("trainer-1")
    return job


def finish(job: Any, trainer: str, lease: Any) -> None:
    job.tick(trainer, lease, lease.first, STAGE.num_batches(lease.key.task) - 1)


def run_round(job: Any) -> dict[int, list[str]]:
    """Both take turns until the round is over; {block: who had it}."""
    had: dict[int, list[str]] = {}
    held: dict[str, list[Any]] = {name: [] for name in job.trainers}
    epoch = job.state.durable.queue.epoch
    for _ in range(60):
        for name, leases in held.items():
            known = [(lease.token, lease.first - 1) for lease in leases]
            found = job.lease(name, *known)
            if found is not None and not isinstance(found, Waiting):
                if found.key.epoch != epoch:
                    return had
                leases.append(found)
            if leases:
                lease = leases.pop(0)
                finish(job, name, lease)
                had.setdefault(CELLS.cell_of(lease.key.task)[1], []).append(name)
        if job.state.status().tasks_done == (1 + epoch) * 8:
            return had
    raise AssertionError(had)


def test_every_block_is_at_every_trainer_once_a_round(job: Any) -> None:
    for _ in range(2):
        had = run_round(job)
        assert sorted(had) == [0, 1, 2, 3]
        assert all(sorted(names) == ["trainer-0", "trainer-1"] for names in had.values())
    assert job.state.status().records == 2 * 56


def test_an_empty_cell_counts_and_has_no_record(job: Any) -> None:
    assert STAGE.num_batches(5) == 1
    assert STAGE.batch_records(5, 0, 0) == 0
    run_round(job)
    assert job.state.status().records == 56
    assert job.state.status().tasks_done == 8


def test_a_trainer_holds_two_cells_of_its_part_and_no_more(job: Any) -> None:
    first = job.lease("trainer-0")
    second = job.lease("trainer-0", (first.token, -1))
    parts = {CELLS.cell_of(lease.key.task)[0] for lease in (first, second)}
    assert len(parts) == 1
    held = [(lease.token, -1) for lease in (first, second)]
    ticket = job.ask("trainer-0", _ask(job, "trainer-0", held))
    job.wait(1.5)
    assert job.answers[ticket].wait.reason == "trainer-0 holds 2 cells"


def test_cells_of_the_dead_are_done_by_another_and_none_twice(job: Any) -> None:
    job.lose("trainer-1")
    del job.trainers["trainer-1"]
    had = run_round(job)
    assert {block: len(names) for block, names in had.items()} == {0: 2, 1: 2, 2: 2, 3: 2}
    assert job.state.status().records == 56


def test_a_cell_whose_time_is_over_goes_on_from_its_mark_when_it_comes_back(
    job: Any,
) -> None:
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 1)
    back = HandBack(
        **job.who("trainer-0"), tokens=(lease.token,), acked=(1,), is_carried=True
    )
    job.get("trainer-0", back)
    following = job.lease("trainer-0")
    assert following.key.task != lease.key.task
    finish(job, "trainer-0", following)
    finish(job, "trainer-1", job.lease("trainer-1"))
    assert job.state.durable.queue.visits == {lease.key.task: 1}
    seen = []
    job.lose("trainer-1")
    while job.state.status().tasks_done < 8:
        found = job.lease("trainer-0")
        seen.append(found)
        finish(job, "trainer-0", found)
    assert (seen[-1].key, seen[-1].first) == (lease.key, 2)
    assert job.state.status().records == 56


def test_a_restarted_coordinator_knows_who_keeps_which_part(job: Any) -> None:
    run_round(job)
    before = dict(job.state.durable.queue.keepers)
    job.restart()
    assert job.state.durable.queue.keepers == before


def test_a_restarted_coordinator_gives_the_next_cell_with_a_tick(job: Any) -> None:
    leases = {name: job.lease(name) for name in job.trainers}
    job.restart()
    job.serve()
    for name, lease in leases.items():
        last = STAGE.num_batches(lease.key.task) - 1
        ticked = job.tick(name, lease, 0, last, next_lease=True)
        assert ticked.lease is not None
        assert ticked.lease.key.task != lease.key.task


def test_a_lease_says_who_has_left_its_block_and_says_it_once(job: Any) -> None:
    lease = job.lease("trainer-0")
    finish(job, "trainer-0", lease)
    block = CELLS.cell_of(lease.key.task)[1]
    job.lose("trainer-1")
    told = []
    while job.state.status().tasks_done < 8:
        found = job.lease("trainer-0")
        if CELLS.cell_of(found.key.task)[1] == block:
            told.append(found.block_at)
        finish(job, "trainer-0", found)
    assert told == [BlockAt("trainer-0", lease.token)]


def test_nobody_is_said_to_have_a_block_that_another_has_had_since(job: Any) -> None:
    lease = job.lease("trainer-0")
    finish(job, "trainer-0", lease)
    block = CELLS.cell_of(lease.key.task)[1]
    while CELLS.cell_of((held := job.lease("trainer-1")).key.task)[1] != block:
        finish(job, "trainer-1", held)
    assert held.block_at == BlockAt("trainer-0", lease.token)
    job.lose("trainer-1")  # it may have changed the block
    while CELLS.cell_of((again := job.lease("trainer-0")).key.task)[1] != block:
        finish(job, "trainer-0", again)
    assert (again.key, again.block_at) == (held.key, None)


def test_who_waits_in_a_rotation_is_told_for_which_block(job: Any) -> None:
    held: list[tuple[int, int]] = []
    reasons = []
    for _ in range(6):
        ticket = job.ask("trainer-0", _ask(job, "trainer-0", held))
        job.serve()
        job.wait(1.5)
        answer = job.answers[ticket]
        if isinstance(answer, Waiting):
            reasons.append(answer.wait.reason)
            break
        finish(job, "trainer-0", answer.lease)
    assert reasons
    assert "with trainer-1" in reasons[0] or "(trainer-1)" in reasons[0]


def _ask(job: Any, trainer: str, held: Any) -> Any:
    return AskLease(**job.who(trainer), stage=0, held=tuple(held))
