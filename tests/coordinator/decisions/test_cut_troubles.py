"""Cuts that cannot be written: whoever looks at the job is told."""

from typing import Any

from paceline.config import Async
from paceline.messages.shared import Refusal
from paceline.messages.trainer import AskLease, Beat
from tests.coordinator.decisions.test_checkpoints import save, wait

WHY = "/cuts: cannot write cut-000001-t0/server-1.bin: the disk is full"


def test_work_goes_on_beside_a_cut_that_fails_and_the_status_says_why(
    make_job: Any,
) -> None:
    job = make_job(pace=Async(), cut_every_s=1.0, checkpoints="/cuts")
    job.open("trainer-0")
    job.lease("trainer-0")
    assert job.state.status().trouble is None
    job.servers[1].trouble = WHY
    wait(job, 3)
    trouble = job.state.status().trouble
    assert (trouble.kind, trouble.place, trouble.waited_s) == ("checkpoint", "/cuts", None)
    assert trouble.text == (
        f"no checkpoint can be written: {WHY}; next try in 3 s; since 2 s"
    )
    job.servers[1].trouble = None
    wait(job, 5)
    assert job.state.status().trouble is None


def test_a_loop_that_ends_without_its_cut_says_since_when_it_waits(make_job: Any) -> None:
    job = make_job(pace=Async(), cut_every_s=0.0)
    job.open("trainer-0")
    for _ in range(7):  # of two epochs of four tasks
        job.finish("trainer-0", job.lease("trainer-0"))
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.trouble = WHY
    job.get("trainer-0", save(job))
    wait(job, 4)
    assert job.state.status().trouble.waited_s is None
    job.finish("trainer-0", lease)
    job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    waited_s = 0.0
    for _ in range(40):
        job.ask("trainer-0", Beat(**job.who("trainer-0"), clock=0, state="waiting"))
        job.wait(1.0)
        trouble = job.state.status().trouble
        assert trouble is not None
        assert trouble.waited_s > waited_s, "of one wait, whatever is tried meanwhile"
        waited_s = trouble.waited_s
    assert trouble.text.startswith(f"waits for the last checkpoint: {WHY}; ")
    assert trouble.text.endswith("; since 40 s")
    for server in job.servers:
        server.trouble = None
    wait(job, 40)
    assert job.state.status().trouble is None
    assert job.state.durable.queue.stage == 1, "the loop is over"


def test_a_first_cut_that_storage_refuses_fails_the_job_since_nothing_is_trained(
    make_job: Any,
) -> None:
    job = make_job(pace=Async(), checkpoints="/cuts")
    job.open("trainer-0")
    job.servers[0].trouble = WHY
    refused = job.get("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    failed = f"the first checkpoint cannot be written: {WHY}"
    assert isinstance(refused, Refusal)
    assert refused.text == f"the job has failed: {failed}"
    status = job.state.status()
    assert (status.state, status.error) == ("failed", failed)
    assert status.trouble.text == f"no checkpoint can be written: {WHY}"
    assert status.trouble.waited_s is None, "nobody waits for another try"


def test_a_first_cut_whose_manifest_is_refused_fails_the_job_too(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.manifest_trouble = WHY
    job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    job.serve()
    assert job.state.status().error == f"the first checkpoint cannot be written: {WHY}"


def test_a_first_cut_that_fails_by_a_server_is_taken_after_all(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.servers[0].trouble, job.servers[0].is_refused = "it was killed", False
    job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    wait(job, 3)
    trouble = job.state.status().trouble
    assert trouble.text.startswith("waits for the first checkpoint: it was killed; ")
    job.servers[0].trouble = None
    wait(job, 5)
    job.lease("trainer-0")
    assert job.state.status().trouble is None
