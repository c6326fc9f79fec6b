"""Gradients that come ahead of their push count when it names them, and only then."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Async, Sync
from paceline.ids import Window
from paceline.messages.data import Push, PushEarly
from paceline.messages.server import CreatePart, Fence, Restore
from paceline.messages.shared import Done, Message, Refusal, Waiting
from paceline.server.requests.early_gradients import EarlyGradients
from paceline.transport.service import Peer
from tests.server.conftest import (
    Server,
    contribution,
    make_plan,
    verdict,
    window,
)

Make = Callable[..., Server]
ONES = np.ones(6)


def send_early(
    server: Server, number: int, tag: int, *, trainer: int = 11, value: float = 1.0
) -> Message:
    """The gradient of slot 0, ahead of a push."""
    message = PushEarly(
        incarnation=trainer,
        timeline=server.timeline,
        part=0,
        number=number,
        tag=tag,
        blocks=(0,),
    )
    return server.ask(message, [value * ONES], trainer)


def push_naming(
    server: Server,
    number: int,
    early: dict[int, int],
    *,
    trainer: int = 11,
    round: int | None = None,  # noqa: A002
) -> Message:
    """A push that carries slot 1 and names slot 0."""
    agreed = server.plan.spec.optimizer
    assert agreed is not None
    pushed: Window = window(number - 1, task=trainer)
    message = Push(
        incarnation=trainer,
        timeline=server.timeline,
        part=0,
        number=number,
        window=pushed,
        records=1,
        round=round,
        hyper=agreed.groups,
        blocks=(1,),
        early=early,
    )
    return server.ask(message, [np.ones(4)], trainer)


def test_a_push_takes_what_it_names(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    assert send_early(server, 1, 5) == Done()
    assert server.pull()[0].sum() == 0, "it has no effect before its push"
    assert verdict(push_naming(server, 1, {0: 5})) == "applied"
    values = server.pull()
    np.testing.assert_array_equal(values[0], -ONES)
    np.testing.assert_array_equal(values[1], -np.ones(4))


def test_a_round_takes_what_its_pushes_name(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    for trainer, value in ((11, 1.0), (12, 3.0)):
        send_early(server, 1, 5, trainer=trainer, value=value)
        assert verdict(push_naming(server, 1, {0: 5}, trainer=trainer, round=1)) == (
            "prepared"
        )
    both = [contribution(1, window(0, task=t), 0.5, trainer=t) for t in (11, 12)]
    server.commit(1, *both)
    np.testing.assert_array_equal(server.pull()[0], -2 * ONES)


@pytest.mark.parametrize("early", [{0: 6}, {0: 4}, {1: 5}])
def test_a_push_that_names_what_is_not_here_is_not_decided(
    make_server: Make, early: dict[int, int]
) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    send_early(server, 1, 5)
    assert isinstance(push_naming(server, 1, early), Waiting)
    assert server.version() == 0
    blocks = {0: 2 * ONES, 1: np.ones(4)}
    pushed = window(0, task=11)
    assert verdict(server.push(1, pushed, blocks=blocks)) == "applied"
    np.testing.assert_array_equal(server.pull()[0], -2 * ONES)


def test_what_a_push_does_not_name_is_dropped(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    send_early(server, 1, 5)
    push_naming(server, 1, {})
    np.testing.assert_array_equal(server.pull()[0], 0 * ONES)
    assert isinstance(push_naming(server, 2, {0: 5}), Waiting)


def test_what_comes_after_its_push_is_refused(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    push_naming(server, 1, {})
    refusal = send_early(server, 1, 5)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "stale"
    assert "for push 1 came after push 1" in refusal.text


def test_what_the_fenced_send_is_refused(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    send_early(server, 1, 5)
    server.coordinator.order(
        Fence(incarnation=11, keys=(), rounds={}), until=lambda report: bool(report.answers)
    )
    assert verdict(send_early(server, 1, 6)) == "fenced"
    assert isinstance(push_naming(server, 1, {0: 5}), Waiting), "it is here no more"
    assert verdict(push_naming(server, 1, {})) == "fenced"


def test_a_return_to_a_cut_drops_what_came_early(make_server: Make) -> None:
    plan = make_plan(pace=Async())
    server = make_server(plan=plan)
    send_early(server, 1, 5)
    server.coordinator.order(
        Restore(timeline=1, cut=0, folder=None, plans=(), files=(), rounds={}),
        until=lambda report: report.timeline == 1 and report.ready,
    )
    server.coordinator.order(CreatePart(plan=plan), until=lambda report: 0 in report.parts)
    assert verdict(send_early(server, 1, 6)) == "timeline"
    server.timeline = 1
    assert isinstance(push_naming(server, 1, {0: 5}), Waiting)


def test_a_lost_connection_drops_what_came_over_it(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    send_early(server, 1, 5)
    server.service.disconnected(Peer("trainer-11", "run", 11, 11))
    assert isinstance(push_naming(server, 1, {0: 5}), Waiting)


def test_two_trainers_have_pieces_of_their_own(make_server: Make) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    send_early(server, 1, 5, trainer=11)
    assert isinstance(push_naming(server, 1, {0: 5}, trainer=12), Waiting)
    assert verdict(push_naming(server, 1, {0: 5}, trainer=11)) == "applied"


@pytest.mark.parametrize(
    ("blocks", "size", "told"),
    [((0,), 5, "expected 48 bytes, got 40"), ((7,), 6, "got 7"), ((0, 1), 6, "buffers")],
)
def test_what_does_not_fit_the_part_is_refused(
    make_server: Make, blocks: tuple[int, ...], size: int, told: str
) -> None:
    server = make_server(plan=make_plan(pace=Async()))
    message = PushEarly(incarnation=11, timeline=0, part=0, number=1, tag=1, blocks=blocks)
    refusal = server.ask(message, [np.ones(size)])
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "invalid"
    assert told in refusal.text


def test_a_part_that_is_not_here_is_refused_for_now(make_server: Make) -> None:
    server = make_server()
    assert verdict(send_early(server, 1, 1)) == "not_ready"


def early_message(slot: int, tag: int, incarnation: int = 1) -> PushEarly:
    return PushEarly(
        incarnation=incarnation, timeline=0, part=0, number=1, tag=tag, blocks=(slot,)
    )


def naming(early: dict[int, int]) -> Push:
    return Push(
        incarnation=1,
        timeline=0,
        part=0,
        number=1,
        window=window(0),
        records=1,
        early=early,
    )


def test_a_trainer_has_no_more_bytes_than_there_is_room_for() -> None:
    staged = EarlyGradients(most_bytes=40)
    assert staged.stage(early_message(0, 1), {0: torch.zeros(8)})
    assert not staged.stage(early_message(1, 2), {1: torch.zeros(8)})
    assert staged.stage(early_message(0, 3), {0: torch.ones(8)}), "it takes a place anew"
    assert staged.stage(early_message(1, 4, incarnation=2), {1: torch.zeros(8)})
    assert staged.num_bytes(1) == staged.num_bytes(2) == 32


@given(
    sent=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 9)), unique_by=lambda one: one[1]
    ),
    named=st.dictionaries(st.integers(0, 3), st.integers(1, 9)),
)
def test_of_every_slot_the_latest_counts_whatever_the_order(
    sent: list[tuple[int, int]], named: dict[int, int]
) -> None:
    staged = EarlyGradients()
    latest: dict[int, int] = {}
    for slot, tag in sent:
        staged.stage(early_message(slot, tag), {slot: torch.full((2,), float(tag))})
        latest[slot] = max(tag, latest.get(slot, 0))
    found = staged.take(naming(named))
    if named.items() <= latest.items():
        assert found is not None
        assert {slot: int(g[0]) for slot, g in found.items()} == named
    else:
        assert found is None
    assert staged.num_bytes(1) == 0
