"""An atomic step is journalled before anybody is told, and in a cut whole or not at all."""

from typing import Any

from paceline.config import Async, Combine, Zeros
from paceline.coordinator.durable.outcomes import StepCommitted
from paceline.messages.locking import CommitStep
from paceline.messages.server import Fence, Snapshot
from paceline.messages.shared import Done, Lease, PartSpec, Refusal, TableSpec
from paceline.messages.trainer import Leave, PartUploaded, Save, SharePart
from tests.coordinator.conftest import Job


def opened() -> Job:
    """A model in part 0, a table in part 1, two trainers who ask for work."""
    job = Job(pace=Async())
    job.open("trainer-0", "trainer-1")
    table = TableSpec("t", 1, Combine(dtype="int64"), Zeros())
    for trainer in ("trainer-0", "trainer-1"):
        spec = PartSpec(1, (), None, (table,), Async())
        answer = job.get(trainer, SharePart(**job.who(trainer), spec=spec))
        if answer.upload:
            job.get(trainer, PartUploaded(**job.who(trainer), part=1))
    return job


def commit(job: Job, trainer: str, number: int) -> Any:
    return job.get(trainer, CommitStep(**job.who(trainer), pushes={1: number}))


def orders(job: Job, kind: type) -> list[Any]:
    return [one for server in job.servers for one in server.seen if isinstance(one, kind)]


def test_a_step_is_committed_once_however_often_it_is_asked_for() -> None:
    job = opened()
    assert commit(job, "trainer-0", 1) == Done()
    assert commit(job, "trainer-0", 1) == Done()
    job.restart()
    job.serve()
    assert commit(job, "trainer-0", 1) == Done()
    steps = [one for one in job.outcomes if isinstance(one, StepCommitted)]
    assert steps == [StepCommitted(job.trainers["trainer-0"], {1: 1})]


def test_the_fence_of_a_dead_trainer_carries_its_last_step() -> None:
    job = opened()
    assert isinstance(job.lease("trainer-0"), Lease)
    commit(job, "trainer-0", 1)
    commit(job, "trainer-0", 2)
    incarnation = job.trainers["trainer-0"]
    job.lose("trainer-0")
    job.serve()
    fences = orders(job, Fence)
    assert len(fences) == len(job.servers)
    assert all((one.incarnation, one.step) == (incarnation, {1: 2}) for one in fences)
    assert job.state.durable.steps == {}, "what is settled is not kept"
    refused = commit(job, "trainer-0", 3)
    assert isinstance(refused, Refusal)
    assert refused.kind == "fenced"


def test_whoever_ends_is_fenced_where_rows_can_be_locked() -> None:
    job = opened()
    job.get("trainer-0", Leave(**job.who("trainer-0")))
    job.lose("trainer-1")
    job.serve()
    fenced = {one.incarnation for one in orders(job, Fence)}
    assert fenced == set(job.trainers.values())
    assert not job.state.durable.settling


def test_no_step_is_committed_between_the_begin_of_a_cut_and_its_moment() -> None:
    job = opened()
    commit(job, "trainer-0", 1)
    assert isinstance(job.lease("trainer-0"), Lease)
    late = job.servers[1]
    late.is_deaf = True
    job.get("trainer-1", Save(**job.who("trainer-1"), number=1))
    assert commit(job, "trainer-0", 2) is None
    assert commit(job, "trainer-0", 1) == Done(), "what is committed stays so"
    late.is_deaf = False
    job.serve()
    assert commit(job, "trainer-0", 2) == Done()
    [first, *others] = orders(job, Snapshot)[-len(job.servers) :]
    assert first.steps == {job.trainers["trainer-0"]: {1: 1}}
    assert all(other.steps == first.steps for other in others)


def test_a_return_to_a_cut_forgets_steps() -> None:
    job = opened()
    commit(job, "trainer-0", 1)
    job.servers[0].incarnation = 0  # another process takes its place
    job.serve()
    assert job.state.durable.timeline == 1
    assert job.state.durable.steps == {}
