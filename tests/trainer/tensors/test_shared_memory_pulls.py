"""A trainer reads values where they lie, and asks when it cannot."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from paceline.config import Async
from paceline.messages.data import Pull, Pulled, ValuesPlace
from paceline.messages.shared import (
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    Waiting,
)
from paceline.params.blocks import cut_blocks
from paceline.params.published import (
    KEY_BYTES,
    ROUND_START,
    Bytes,
    PublishedValues,
    bytes_needed,
)
from paceline.trainer.encoding.tensor_bytes import PartMemory
from paceline.trainer.tensors import shared_memory_pulls as direct_pulls
from paceline.trainer.tensors.shared_memory_pulls import DirectPulls

SIZES = {0: 4 * 6}
KEY = b"k" * KEY_BYTES
SERVER = "server-0"
PLACE = ValuesPlace(1, 2, bytes_needed(SIZES), KEY)


def make_plan() -> PartPlan:
    spec = PartSpec(
        0,
        (ParameterSpec(("w",), (6,), "float32"),),
        OptimizerSpec("SGD", ({"lr": 1.0},)),
        (),
        Async(),
    )
    return PartPlan(spec, cut_blocks(spec.parameters, 1, first_slot=0), 1, 0, {0: SERVER})


class Both:
    """A server's memory, and a trainer that pulls from it."""

    def __init__(self) -> None:
        self.bytes = np.zeros(bytes_needed(SIZES), np.uint8)
        self.published = PublishedValues(self.bytes, SIZES, KEY, threading.Lock())
        self.parameter = nn.Parameter(torch.zeros(6))
        self.landed = 0
        self.waited: list[int] = []
        self.happens: Callable[[], object] = int  # while it waits
        self.memory = PartMemory([self.parameter])
        self.pulls = DirectPulls(self.memory, self._land, self._wait)
        self.pulls.follow(make_plan())
        self.found: Any = self.bytes

    def _wait(self, memory: Bytes, start: int, seen: int, timeout_s: float) -> None:
        assert memory is self.bytes
        assert start == ROUND_START
        assert timeout_s == direct_pulls.WAIT_S
        self.waited.append(seen)
        self.happens()

    def _land(self) -> None:
        self.landed += 1

    def fill(self, value: float) -> None:
        self.published.decide()
        self.published.blocks[0].view(np.float32)[:] = value
        self.published.done()

    def ask(self, timeline: int = 0) -> Pull:
        return self.pulls.ask(SERVER, Pull(incarnation=1, timeline=timeline, part=0))

    def find(self) -> Pull:
        """The first pull of a timeline, and the next one."""
        asked = self.ask()
        assert asked.asks_place
        self.pulls.answered(SERVER, asked, Pulled(slots=(0,), round=0, place=PLACE))
        return self.ask()


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    pair = Both()
    monkeypatch.setattr(direct_pulls, "find_memory", lambda *_: pair.found)
    return pair


def test_once_the_place_is_known_values_are_read_there(both: Both) -> None:
    pull = both.find()
    assert pull.reads_there
    assert not pull.asks_place
    both.fill(3.0)
    assert both.pulls.read(SERVER, pull) == Pulled(slots=(0,), round=0)
    assert both.parameter.tolist() == [3.0] * 6
    assert both.landed == 1


def _lies_elsewhere(parameter: nn.Parameter) -> None:
    parameter.data = parameter.data.clone()


def _has_gaps(parameter: nn.Parameter) -> None:
    parameter.data = torch.zeros(6, 2)[:, 0]


@pytest.mark.parametrize("move", [_lies_elsewhere, _has_gaps])
def test_values_are_read_to_where_a_parameter_is_by_now(
    both: Both, move: Callable[[nn.Parameter], None]
) -> None:
    pull = both.find()
    both.fill(3.0)
    assert both.pulls.read(SERVER, pull) is not None
    move(both.parameter)
    both.fill(4.0)
    assert both.pulls.read(SERVER, pull) is not None
    both.memory.settle()
    assert both.parameter.tolist() == [4.0] * 6
    both.fill(5.0)
    assert both.pulls.read(SERVER, pull) is not None
    both.memory.settle()
    assert both.parameter.tolist() == [5.0] * 6


def test_values_that_may_come_at_any_time_are_read_beside_from_then_on(both: Both) -> None:
    pull = both.find()
    both.fill(3.0)
    assert both.pulls.read(SERVER, pull) is not None
    both.memory.let_land(apart=True)
    both.fill(4.0)
    assert both.pulls.read(SERVER, pull) is not None
    assert both.parameter.tolist() == [3.0] * 6
    both.memory.settle()
    assert both.parameter.tolist() == [4.0] * 6


def test_values_are_read_beside_again_and_each_is_brought_home(
    both: Both,
) -> None:
    pull = both.find()
    for turn in range(2):
        both.memory.let_land(apart=True)
        for value in (3.0 + turn, 5.0 + turn):
            before, version = both.parameter.tolist(), both.parameter._version
            both.fill(value)
            assert both.pulls.read(SERVER, pull) is not None
            assert both.parameter.tolist() == before
            both.memory.settle()
            assert both.parameter.tolist() == [value] * 6
            assert both.parameter._version > version  # autograd knows
        both.memory.settle()  # nothing has come
        both.memory.let_land(apart=False)
        # Over the wire, to where the parameter is its own memory again.
        place = both.memory[0].place(make_plan().blocks[0])
        assert place.ctypes.data == both.parameter.data_ptr()
        both.memory.settle()


@pytest.mark.parametrize("found", [None, np.zeros(bytes_needed(SIZES), np.uint8)])
def test_a_place_that_is_not_found_is_asked_for_once(both: Both, found: Any) -> None:
    both.found = found
    pull = both.find()
    assert not pull.asks_place
    assert not pull.reads_there
    assert both.pulls.read(SERVER, pull) is None


def test_a_place_belongs_to_a_timeline(both: Both) -> None:
    pull = both.find()
    assert both.ask(timeline=1).asks_place
    assert both.pulls.read(SERVER, pull) is None, "of the timeline before"


def test_values_that_change_just_then_are_asked_for_again(both: Both) -> None:
    pull = both.find()
    there = Pulled(slots=(), round=0, is_there=True)
    both.published.decide()
    assert isinstance(both.pulls.answered(SERVER, pull, there), Waiting)
    both.published.done()
    assert both.pulls.answered(SERVER, pull, there) == Pulled(slots=(0,), round=0)


def test_a_server_that_sends_values_all_the_same_has_them_elsewhere(both: Both) -> None:
    pull = both.find()
    sent = Pulled(slots=(0,), round=0)
    assert both.pulls.answered(SERVER, pull, sent) == sent
    assert not both.ask().reads_there


def test_a_round_that_is_not_there_yet_is_waited_for_where_it_will_be(both: Both) -> None:
    pull = msgspec.structs.replace(both.find(), at_round=1)

    def commit() -> None:
        both.fill(5.0)
        both.published.applied(1)

    both.happens = commit
    assert both.pulls.read(SERVER, pull) == Pulled(slots=(0,), round=1)
    assert both.parameter.tolist() == [5.0] * 6
    assert both.waited == [0]


def test_a_round_that_does_not_come_is_asked_for(both: Both) -> None:
    pull = msgspec.structs.replace(both.find(), at_round=1)
    assert both.pulls.read(SERVER, pull) is None
    assert both.waited == [0], "once: then the server says what there is to say"


def test_nobody_waits_for_values_that_are_over(both: Both) -> None:
    pull = msgspec.structs.replace(both.find(), at_round=1)
    both.published.retire()
    assert both.pulls.read(SERVER, pull) is None
    assert both.waited == []
