"""What a process of several cannot do is refused by name, and nobody is asked for it."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import Sync
from paceline.errors import PeerLost, UsageError
from paceline.timing import ManualClock
from paceline.trainer.client import Courier
from paceline.trainer.group import GroupPlace, collectives
from paceline.trainer.seating import take_seat
from paceline.trainer.session import Session
from tests.architecture.walks import Collectives


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Of a follower whose leader says nothing."""
    monkeypatch.setattr(collectives, "distributed", Collectives(1))
    leader, own = socket.socketpair()
    place = GroupPlace("trainer-0", 1, 2, (own,), "", Sync())
    seat = take_seat("trainer-0", Courier(lost, lost), ManualClock(), 1.0, group=place)
    yield Session(seat, Path())
    leader.setblocking(False)
    with pytest.raises(BlockingIOError):
        leader.recv(1)
    leader.close()
    own.close()


def lost(*_: object) -> Any:
    raise PeerLost("nobody is there")


def share_between(session: Session) -> object:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return session.share(model, optimizer, pace=paceline.AllReduce())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda session: session.send("trainer-1", b""), "has no link to other trainers"),
        (lambda session: session.events(0.0), "has no link to other trainers"),
        (lambda session: session.poll(), "has no link to other trainers"),
        (share_between, "a trainer of 2 processes cannot do that yet"),
        (
            lambda session: session.table("t", (2,)),
            "table 't': a trainer of 2 processes has no tables of its own yet",
        ),
        (
            lambda session: session.unshare(nn.Linear(1, 1)),
            "unshare: a trainer of 2 processes cannot do that yet",
        ),
    ],
)
def test_it_is_refused_by_name(
    call: Callable[[Session], object], text: str, session: Session
) -> None:
    with pytest.raises(UsageError, match=text):
        call(session)
