"""In a script's own process coordinator and server are called, and need not be woken."""

import threading
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.embedded import EmbeddedJob
from paceline.messages.server import CommitRound
from paceline.server.standing import ServerCore
from tests.launch.own_jobs import BATCH, RECORDS, train


def test_rounds_are_applied_by_the_thread_that_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    commit = ServerCore.commit_round

    def note(core: ServerCore, order: CommitRound) -> None:
        threads.append(threading.current_thread())
        commit(core, order)

    monkeypatch.setattr(ServerCore, "commit_round", note)
    job = EmbeddedJob(JobConfig(run="r", cut_every_s=0.0), tmp_path)
    assert train(job.session("trainer-0")) == RECORDS
    job.close()
    assert len(threads) == RECORDS // BATCH
    # A report that has news, as at the beginning, is answered to the server's own thread.
    assert threads.count(threading.current_thread()) > len(threads) // 2
