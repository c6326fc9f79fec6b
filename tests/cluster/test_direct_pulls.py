"""Trainers of a server's host read dense values by themselves, and seldom ask for them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from paceline.config import Async, JobConfig, Pace, Sync
from paceline.launch.embedded import EmbeddedJob
from paceline.messages.data import Pull
from paceline.server.service import ServerService
from paceline.trainer.tensors import shared_memory_pulls as direct_pulls
from paceline.transport.service import Peer
from paceline.transport.shared_memory import is_supported

STEPS, BATCH, SERVERS = 30, 4, 2

pytestmark = pytest.mark.skipif(not is_supported(), reason="nothing is lent here")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[bool, bool]]:
    """How often servers are asked for dense values: {(asks_place, reads_there): count}."""
    found: Counter[tuple[bool, bool]] = Counter()
    received = ServerService.received

    def note(self: ServerService, peer: Peer, message: object, *rest: Any) -> None:
        if isinstance(message, Pull):
            found[message.asks_place, message.reads_there] += 1
        received(self, peer, message, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ServerService, "received", note)
    return found


def train(pace: Pace, folder: Path) -> dict[str, torch.Tensor]:
    """The parameters that a job ends with."""
    job = EmbeddedJob(JobConfig(run="r", servers=SERVERS, pace=pace), folder)
    try:
        session = job.session("trainer-0")
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=0.01))
        data = torch.randn(STEPS * BATCH, 6, generator=torch.Generator().manual_seed(1))
        for batch in session.batches(data, BATCH, task_size=STEPS * BATCH // 3):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        job.close()
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("pace", [Async(), Async(pull_every=2)], ids=str)
def test_without_rounds_a_server_is_asked_once(
    pace: Pace, tmp_path: Path, asked: Counter[tuple[bool, bool]]
) -> None:
    train(pace, tmp_path / "job")
    assert asked[True, False] == SERVERS
    assert asked.total() <= SERVERS + 3, "only while something changed"


def test_in_rounds_values_do_not_travel_either(
    tmp_path: Path, asked: Counter[tuple[bool, bool]]
) -> None:
    train(Sync(), tmp_path / "job")
    assert asked[True, False] == SERVERS
    assert asked[False, False] == 0


@pytest.mark.parametrize("pace", [Sync(), Async(), Async(pull_every=2)], ids=str)
def test_who_does_not_find_the_place_asks_and_gets_the_same(
    pace: Pace,
    tmp_path: Path,
    asked: Counter[tuple[bool, bool]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    direct = train(pace, tmp_path / "direct")
    asked.clear()
    monkeypatch.setattr(direct_pulls, "find_memory", lambda *_: None)
    apart = train(pace, tmp_path / "asking")
    assert asked[True, False] == SERVERS, "the place is asked for once"
    assert asked[False, False] >= (STEPS - 1) * SERVERS
    assert asked[False, True] == 0
    for name, value in direct.items():
        assert torch.equal(value, apart[name]), name
