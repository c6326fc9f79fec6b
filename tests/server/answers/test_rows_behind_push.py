"""Rows asked for behind a push are read after it, and come with its acknowledgement."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from paceline.config import Async, Pace, Sync
from paceline.ids import Window
from paceline.messages.data import PulledRows, PullRows, Push, Pushed
from paceline.messages.shared import Message
from tests.server.conftest import Answered, Array, Rows, Server, group, make_plan, window

MakeServer = Callable[..., Server]
IDS = [5, -9, 6]
GRADIENTS = np.array([[1, 2], [3, 4]], np.float32)  # of the first two ids


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    return make_server(plan=make_plan())


def push_with_rows(
    server: Server, number: int, pushed: Window, **changes: Any
) -> tuple[Answered, Array]:
    """A push of `GRADIENTS` with `IDS` behind it; the answer, and the order of the ids."""
    order, wanted = group(IDS)
    learned, entry = group(IDS[:2])
    behind = PullRows(incarnation=11, timeline=0, part=0, rows=(wanted,), create=True)
    push = Push(
        incarnation=11,
        timeline=0,
        part=0,
        number=number,
        window=pushed,
        records=1,
        rows=(entry,),
        behind=behind,
    )
    ids = np.array(IDS, np.int64)
    arrays = [ids[:2][learned], GRADIENTS[learned], ids[order]]
    return server.submit(msgspec.structs.replace(push, **changes), arrays), order


def rows_of(answered: Answered, order: Array) -> tuple[str, list[list[float]]]:
    message = answered.wait()
    assert isinstance(message, Pushed), message
    assert isinstance(message.behind, PulledRows)
    [values] = answered.buffers
    rows = np.empty((len(IDS), 2), np.float32)
    rows[order] = values.view(np.float32).reshape(-1, 2)
    return message.verdict, rows.tolist()


def test_the_rows_have_the_push_in_them(server: Server) -> None:
    answered, order = push_with_rows(server, 1, window(0))
    assert rows_of(answered, order) == ("applied", [[-1, -2], [-3, -4], [0, 0]])


def test_a_repeated_push_brings_the_rows_and_has_no_second_effect(server: Server) -> None:
    for expected in ("applied", "duplicate", "duplicate"):
        answered, order = push_with_rows(server, 1, window(0))
        assert rows_of(answered, order) == (expected, [[-1, -2], [-3, -4], [0, 0]])


def test_the_rows_have_what_others_pushed_before_the_repetition(server: Server) -> None:
    push_with_rows(server, 1, window(0))
    server.push(1, window(0, task=1), rows=Rows([6], [[7.0, 7.0]]), trainer=12)
    answered, order = push_with_rows(server, 1, window(0))
    assert rows_of(answered, order)[1] == [[-1, -2], [-3, -4], [-7, -7]]


@pytest.mark.parametrize("pace", [Async(isolation="hogwild"), Async(merge=4)], ids=str)
def test_rows_behind_a_push_come_in_every_way_of_applying(
    make_server: MakeServer, pace: Pace
) -> None:
    server = make_server(plan=make_plan(pace=pace))
    answered, order = push_with_rows(server, 1, window(0))
    assert rows_of(answered, order) == ("applied", [[-1, -2], [-3, -4], [0, 0]])


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"timeline": 3}, "timeline"), ({"window": window(4)}, "gap")],
)
def test_a_push_that_is_refused_brings_no_rows(
    server: Server, changes: dict[str, Any], kind: str
) -> None:
    push_with_rows(server, 1, window(0))
    answered, _ = push_with_rows(server, 2, window(1), **changes)
    assert refusal_kind(answered.wait()) == kind
    assert answered.buffers == []
    assert server.version() == 1


def test_rows_behind_a_push_of_a_round_are_refused(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    answered, _ = push_with_rows(server, 1, window(0), round=1)
    assert refusal_kind(answered.wait()) == "invalid"
    server.push(1, window(0), round=1)  # nothing of it was prepared


def test_rows_that_the_part_does_not_have_leave_the_push_applied(server: Server) -> None:
    strange = PullRows(incarnation=11, timeline=0, part=0, rows=(), create=True)
    wanted = group(IDS)[1]
    strange = msgspec.structs.replace(
        strange, rows=(msgspec.structs.replace(wanted, table="item"),)
    )
    answered, _ = push_with_rows(server, 1, window(0), behind=strange)
    assert refusal_kind(answered.wait()) == "invalid"
    answered, order = push_with_rows(server, 1, window(0))
    assert rows_of(answered, order) == ("duplicate", [[-1, -2], [-3, -4], [0, 0]])


def test_fewer_buffers_than_ids_are_asked_for_are_refused(server: Server) -> None:
    rows = group(IDS)[1]
    behind = PullRows(incarnation=11, timeline=0, part=0, rows=(rows, rows), create=True)
    push = Push(
        incarnation=11,
        timeline=0,
        part=0,
        number=1,
        window=window(0),
        records=1,
        behind=behind,
    )
    assert refusal_kind(server.ask(push, [np.zeros(1, np.int64)])) == "invalid"


def refusal_kind(message: Message) -> str:
    return str(getattr(message, "kind", message))
