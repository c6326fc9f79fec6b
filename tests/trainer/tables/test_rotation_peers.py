"""Blocks between trainers: a copy is given to who names its lease, and to nobody else."""

from typing import Any

import numpy as np
import pytest

from paceline.errors import DeadlineExceeded, Refused, UsageError
from paceline.ids import TaskKey
from paceline.messages.peers import ArraySpec, AskBlock, Values
from paceline.messages.shared import BlockAt, Lease, Refusal
from paceline.trainer.protocol.tables import StandingThen
from paceline.trainer.tables.rotation_peers import PeerBlocks
from paceline.transport.connection import Answer

HERE = StandingThen(incarnation=3, timeline=1)
ROWS = np.arange(6.0).reshape(3, 2)


class FakeLink:
    """A link whose other trainer answers, or does not."""

    trainer = "trainer-0"

    def __init__(self, answer: Any = None, *, has_door: bool = True) -> None:
        self.reply, self.has_door = answer, has_door
        self.answerers: dict[type, Any] = {}

    def answer(self, kind: type, answerer: Any) -> None:
        self.answerers[kind] = answerer

    def open(self) -> None:
        if not self.has_door:
            raise UsageError("no door")

    def wait_answer(self, trainer: str, message: Any, **options: Any) -> Answer:
        assert (trainer, message.part) == ("trainer-1", 7)
        if isinstance(self.reply, Exception):
            raise self.reply
        spec, values = self.reply
        [place] = options["landing"](Values(arrays=(spec,)), [values.nbytes])
        np.asarray(place).reshape(-1).view(np.uint8)[:] = values.reshape(-1).view(np.uint8)
        return Answer(Values(arrays=(spec,)), [])

    def ask(self, token: int, block: int = 4, timeline: int = 1) -> tuple[Any, Any]:
        """What the answerer says to another trainer."""
        ask = AskBlock(
            incarnation=9, timeline=timeline, to=3, part=7, block=block, token=token
        )
        said: list[Any] = []
        self.answerers[AskBlock]("trainer-1", ask, [], lambda *reply: said.append(reply))
        [reply] = said
        return reply[0], reply[1] if len(reply) > 1 else []


def lease(at: BlockAt | None) -> Lease:
    return Lease(20, TaskKey(0, 0, 4), 0, block_at=at)


def peers(link: FakeLink, num_kept: int = 2) -> PeerBlocks:
    return PeerBlocks(link, 7, num_kept)  # type: ignore[arg-type]


def test_a_block_is_given_as_it_was_left() -> None:
    link, rows = FakeLink(), ROWS.copy()
    peers(link).keep(11, 4, HERE, rows)
    rows += 1  # the user goes on with his array
    reply, [data] = link.ask(11)
    assert reply == Values(arrays=(ArraySpec((3, 2), "<f8"),))
    assert data.tobytes() == ROWS.tobytes()


@pytest.mark.parametrize(
    ("token", "block", "timeline"), [(12, 4, 1), (11, 5, 1), (11, 4, 2)]
)
def test_another_lease_block_or_timeline_is_refused(
    token: int, block: int, timeline: int
) -> None:
    link = FakeLink()
    peers(link).keep(11, 4, HERE, ROWS)
    reply, buffers = link.ask(token, block, timeline)
    assert isinstance(reply, Refusal)
    assert (reply.kind, buffers) == ("invalid", [])


def test_only_the_last_blocks_are_kept_and_none_behind_the_loop() -> None:
    link = FakeLink()
    blocks = peers(link, num_kept=2)
    for token in (11, 12, 13):
        blocks.keep(token, 4, HERE, ROWS)
    kept = [isinstance(link.ask(token)[0], Values) for token in (11, 12, 13)]
    assert kept == [False, True, True]
    blocks.clear()
    assert isinstance(link.ask(13)[0], Refusal)


def test_a_block_comes_from_whom_the_lease_names() -> None:
    link = FakeLink((ArraySpec((3, 2), "<f8"), ROWS))
    found = np.zeros((3, 2))
    blocks = peers(link)
    assert blocks.wait_rows(lease(BlockAt("trainer-1", 11)), 4, found)
    assert (found == ROWS).all()
    assert blocks.num_asked == 1


def test_what_this_trainer_has_left_itself_is_here() -> None:
    link, found = FakeLink(), np.zeros((3, 2))
    blocks = peers(link)
    blocks.keep(11, 4, HERE, ROWS)
    assert blocks.wait_rows(lease(BlockAt("trainer-0", 11)), 4, found)
    assert (found == ROWS).all()
    assert not blocks.wait_rows(lease(BlockAt("trainer-0", 12)), 4, found)


@pytest.mark.parametrize(
    "answer",
    [
        Refused("invalid", "not here any more"),
        DeadlineExceeded("no answer"),
        (ArraySpec((3, 2), "<f4"), ROWS.astype(np.float32)),
        (ArraySpec((2, 3), "<f8"), ROWS.reshape(2, 3)),
    ],
    ids=["refused", "late", "another dtype", "another shape"],
)
def test_what_does_not_come_whole_lies_at_home(answer: Any) -> None:
    blocks = peers(FakeLink(answer))
    assert not blocks.wait_rows(lease(BlockAt("trainer-1", 11)), 4, np.zeros((3, 2)))


def test_without_a_door_or_a_name_nobody_is_asked() -> None:
    found = np.zeros((3, 2))
    named = lease(BlockAt("trainer-1", 11))
    assert not peers(FakeLink(has_door=False)).wait_rows(named, 4, found)
    assert not peers(FakeLink()).wait_rows(lease(None), 4, found)
