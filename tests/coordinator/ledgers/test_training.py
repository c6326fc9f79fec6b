"""What the rate of a run is by: the time of its loops over batches, and nothing else."""

import msgspec

from paceline.config import Async
from paceline.messages.results import FinishTask
from paceline.messages.trainer import BeginStage
from paceline.messages.watching import Trained
from tests.coordinator.conftest import STAGE, Job

LOOP = msgspec.structs.replace(STAGE, epochs=1)  # 4 tasks of 5 batches of 2 records


def training(**options: object) -> Job:
    """One trainer in front of its first loop, ten seconds after the start."""
    job = Job(pace=Async(), **options)  # type: ignore[arg-type]  # options of a job
    job.now = 10.0
    job.open("trainer-0", stage=LOOP)
    return job


def train(job: Job, stage: int = 0, tasks: int = 4, seconds: float = 1.0) -> None:
    """Work off tasks, each of which takes so long."""
    for _ in range(tasks):
        lease = job.lease("trainer-0", stage=stage)
        job.now += seconds
        job.finish("trainer-0", lease)


def trained(job: Job) -> Trained:
    told = job.state.status().trained
    assert told is not None
    return told


def test_before_the_first_lease_nothing_is_told() -> None:
    assert training().state.status().trained is None


def test_a_loop_trains_from_its_first_lease_to_its_last_record() -> None:
    job = training()
    train(job, tasks=3)
    job.now += 5.0  # of the script's own, or of who has died
    train(job, tasks=1)
    job.wait(30.0)  # afterwards: saving, drawing, asking for what comes next
    assert trained(job).seconds == 9.0
    assert trained(job).since_s == job.now - 10.0


def test_what_lies_between_two_loops_trains_nothing() -> None:
    job = training()
    train(job)
    job.lease("trainer-0")  # the loop is over
    evaluation = msgspec.structs.replace(LOOP, stage=1, shuffle=False, kind="evaluate")
    job.get("trainer-0", BeginStage(**job.who("trainer-0"), spec=evaluation))
    for _ in range(4):
        lease = job.lease("trainer-0", stage=1)
        job.now += 20.0
        message = FinishTask(**job.who("trainer-0"), token=lease.token, result=b"")
        job.get("trainer-0", message)
    job.lease("trainer-0", stage=1)
    job.now += 7.0
    again = msgspec.structs.replace(LOOP, stage=2)
    job.get("trainer-0", BeginStage(**job.who("trainer-0"), spec=again))
    train(job, stage=2, tasks=2)
    assert trained(job).seconds == 6.0


def test_a_restarted_coordinator_begins_with_the_next_record() -> None:
    job = training()
    lease = job.lease("trainer-0")
    job.now += 1.0
    job.restart()
    assert job.state.status().trained is None
    job.serve()
    job.now += 1.0
    job.tick("trainer-0", lease, 0, 2)
    job.now += 2.0
    job.tick("trainer-0", lease, 3, 4)
    assert trained(job).seconds == 2.0
