"""Values that a trainer sets replace what is there, once, between its pushes."""

from collections.abc import Callable

import numpy as np
import pytest

from paceline.config import Async, Sync
from paceline.messages.data import Pull, Pulled, Pushed
from paceline.messages.server import Fence
from paceline.messages.shared import Message, OptimizerSpec, Waiting
from paceline.messages.values import SetValues
from paceline.params.published import ValuesReader
from paceline.transport.shared_memory import find_memory, is_supported
from tests.server.conftest import Server, contribution, make_plan, verdict, window
from tests.server.test_sparse_blocks import DIM, ROWS, pull, push, sparse_plan

MakeServer = Callable[..., Server]
ONES = {0: np.ones(6), 1: np.ones(4)}


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    return make_server(plan=make_plan())


def set_values(
    number: int, tag: int, slots: tuple[int, ...] = (0,), at_round: int = 0
) -> SetValues:
    return SetValues(
        incarnation=11,
        timeline=0,
        part=0,
        number=number,
        tag=tag,
        slots=slots,
        at_round=at_round,
    )


def test_values_that_are_set_count_as_an_update_and_the_next_step_is_taken_on_them(
    server: Server,
) -> None:
    server.push(1, window(0), blocks=ONES)
    applied = Pushed(verdict="applied", version=2)
    assert server.ask(set_values(1, 1), [np.full(6, 5.0)]) == applied
    assert np.array_equal(server.pull()[0], np.full(6, 5.0))
    assert np.array_equal(server.pull()[1], -np.ones(4)), "not set"
    assert server.version() == 2
    server.push(2, window(1), blocks=ONES)
    assert np.array_equal(server.pull()[0], np.full(6, 4.0))


def test_the_state_of_the_optimizer_stays(make_server: MakeServer) -> None:
    momentum = OptimizerSpec("SGD", ({"lr": 1.0, "momentum": 0.5},))
    server = make_server(plan=make_plan(optimizer=momentum))
    server.push(1, window(0), blocks=ONES)
    server.ask(set_values(1, 1), [np.zeros(6)])
    server.push(2, window(1), blocks=ONES)
    assert np.array_equal(server.pull()[0], np.full(6, -1.5))


def test_the_same_values_again_have_no_effect(server: Server) -> None:
    server.ask(set_values(0, 1), [np.full(6, 5.0)])
    server.push(1, window(0), blocks=ONES, trainer=12)
    again = server.ask(set_values(0, 1), [np.full(6, 5.0)])
    assert again == Pushed(verdict="applied", version=2)
    assert np.array_equal(server.pull()[0], np.full(6, 4.0))


def test_values_that_come_behind_a_later_push_or_others_are_refused(server: Server) -> None:
    server.push(1, window(0), blocks=ONES)
    assert verdict(server.ask(set_values(0, 1), [np.zeros(6)])) == "stale"
    server.ask(set_values(1, 3), [np.full(6, 3.0)])
    assert verdict(server.ask(set_values(1, 2), [np.full(6, 2.0)])) == "stale"
    assert np.array_equal(server.pull()[0], np.full(6, 3.0))


def test_values_of_who_is_fenced_or_of_another_timeline_are_refused(server: Server) -> None:
    fence = Fence(incarnation=11, keys=(), rounds={})
    server.coordinator.order(fence, until=lambda report: bool(report.answers))
    assert verdict(server.ask(set_values(0, 1), [np.ones(6)])) == "fenced"
    other = SetValues(incarnation=12, timeline=1, part=0, number=0, tag=1, slots=(0,))
    assert verdict(server.ask(other, [np.ones(6)])) == "timeline"
    assert np.array_equal(server.pull()[0], np.zeros(6))


@pytest.mark.parametrize(
    ("message", "array"),
    [(set_values(0, 1), np.ones(5)), (set_values(0, 1, (0, 0)), np.ones(6))],
)
def test_malformed_values_change_nothing(
    server: Server, message: Message, array: np.ndarray
) -> None:
    assert verdict(server.ask(message, [array])) == "invalid"
    assert server.version() == 0
    assert verdict(server.ask(set_values(0, 1), [np.ones(6)])) == "applied"


def test_in_rounds_they_wait_for_the_round_that_they_are_of(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    server.push(1, window(0), blocks=ONES, round=1)
    early = server.ask(set_values(1, 1, at_round=1), [np.full(6, 5.0)])
    assert isinstance(early, Waiting)
    server.commit(1, contribution(1, window(0), 1.0))
    assert verdict(server.ask(set_values(1, 1, at_round=1), [np.full(6, 5.0)])) == "applied"
    assert np.array_equal(server.pull()[0], np.full(6, 5.0))


def test_hogwild_parts_take_them_alone(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Async(isolation="hogwild"), dtype="float64"))
    server.push(1, window(0), blocks=ONES)
    server.ask(set_values(1, 1), [np.full(6, 5.0)])
    assert np.array_equal(server.pull()[0], np.full(6, 5.0))


def test_who_knows_rows_by_an_updates_number_gets_what_was_set(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=sparse_plan())
    server.ask(*push(1, [3, 7]))
    server.ask(set_values(1, 1), [np.full((ROWS, DIM), 2.0)])
    found, buffers = pull(server, known=1)
    assert found.updates == {0: 2}
    assert np.array_equal(buffers[1].view(np.float64), np.full(ROWS * DIM, 2.0))


@pytest.mark.skipif(not is_supported(), reason="nothing is lent here")
def test_who_reads_lent_memory_sees_them(server: Server) -> None:
    who = {"incarnation": 99, "timeline": 0, "part": 0}
    told = server.ask(Pull(**who, asks_place=True))
    assert isinstance(told, Pulled)
    assert told.place is not None
    memory = find_memory(told.place.pid, told.place.descriptor, told.place.num_bytes)
    assert memory is not None
    reader = ValuesReader(memory, {0: 48, 1: 32}, told.place.key)
    server.ask(set_values(0, 1), [np.full(6, 5.0)])
    places = {0: np.empty(48, np.uint8), 1: np.empty(32, np.uint8)}
    assert reader.read_into(places, 0) == 0
    assert np.array_equal(places[0].view(np.float64), np.full(6, 5.0))
    assert reader.version == 1
