"""What a rank carries to a server is its share of the trainer's push, and no more."""

import socket
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from paceline.config import Sync
from paceline.errors import PeerLost
from paceline.ids import COORDINATOR, Window
from paceline.messages.data import Pull, Pulled, Push, Pushed
from paceline.messages.locking import RowSlots
from paceline.messages.shared import (
    Message,
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
)
from paceline.params.blocks import cut_blocks
from paceline.timing import ManualClock
from paceline.trainer.client import Courier
from paceline.trainer.client.connections import ConnectServer
from paceline.trainer.client.waits import Waits
from paceline.trainer.group import wire as wire
from paceline.trainer.group.delegated_requests import Carrying
from paceline.trainer.group.leader_calls import Followers
from paceline.trainer.tensors import ModelTensors, PartSteps
from paceline.trainer.tensors.gradients import Gradients
from paceline.transport.connection import Connection
from paceline.transport.frames import Buffer
from paceline.transport.streams import FrameChannel
from tests.trainer.fake_connection import FakeConnection

SPEC = PartSpec(
    0,
    (ParameterSpec(("weight",), (4, 3), "float32"),),
    OptimizerSpec("SGD", ({"lr": 0.1},)),
    (),
    Sync(),
)
BLOCKS = cut_blocks(SPEC.parameters, 2, first_slot=0, min_block=1)
PLAN = PartPlan(SPEC, BLOCKS, 2, 0, {0: "server-0", 1: "server-1"})
PUSH = Push(
    incarnation=4,
    timeline=0,
    part=0,
    number=7,
    window=Window(0, 0, ()),
    records=8,
    round=1,
    is_lent=True,
    hyper=({"lr": 0.3},),
    blocks=(1,),
    rows=(RowSlots("rows", (2,), (1,)),),
)
IDS, ROWS = np.array([5]), np.ones(3, np.float32)


class Server:
    """One that takes all, and notes it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.connections = 0
        self.bytes: list[tuple[Message, int, int]] = []
        self.asked: list[tuple[str, Message, list[np.ndarray]]] = []

    def must_park(self, message: Message) -> bool:
        del message
        return False

    def answer(
        self, role: str, message: Message, buffers: list[np.ndarray]
    ) -> tuple[Message, Sequence[Buffer]]:
        self.asked.append((role, message, buffers))
        if isinstance(message, Pull):
            values = np.full(6, 2.0, np.float32)
            return Pulled(slots=(1,), round=message.at_round), [values]
        return Pushed(verdict="prepared", version=3), []


@pytest.fixture
def numbers() -> ModelTensors:
    """A rank's: its sums are loaded for a push."""
    parameter = nn.Parameter(torch.zeros(4, 3))
    found = ModelTensors(
        PartSteps([parameter], [{"lr": 0.1, "params": [parameter]}]), PLAN.spec.pace
    )
    sums = torch.zeros(4, 3)
    sums[2:] = 5.0
    assert found.hold(PLAN, Gradients({0: sums}, {})).is_finite
    return found


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def carrying(server: Server) -> Iterator[Carrying]:
    made = carrying_by(lambda address, _: FakeConnection(server, address), server)
    yield made
    made.close()


def carrying_by(connect: ConnectServer, server: Server) -> Carrying:
    courier = Courier(lambda _: FakeConnection(server, COORDINATOR), connect)
    return Carrying(courier, server.clock, timeout_s=1.0)


def errand(message: Push | Pull) -> wire.Errand:
    return wire.Errand(3, "server-1", "there", message)


def test_a_push_is_the_leaders_with_the_blocks_of_who_carries_it(
    server: Server, carrying: Carrying, numbers: ModelTensors
) -> None:
    carried = carrying.carry(errand(PUSH), [IDS, ROWS], numbers, PLAN)
    assert carried == wire.GroupCarried(3, Pushed(verdict="prepared", version=3))
    [(role, message, buffers)] = server.asked
    assert (role, message) == ("there", PUSH)
    block, ids, rows = buffers
    assert block.view(np.float32).tolist() == [5.0] * 6
    assert ids.view(np.int64).tolist() == [5]
    assert rows.view(np.float32).tolist() == [1.0] * 3


def test_which_blocks_share_a_buffer_is_the_carriers_own_matter(
    server: Server, carrying: Carrying
) -> None:
    """The leader holds more of them, and so others lie side by side there."""
    names = [f"bias {n}" for n in range(9)]
    spec = msgspec.structs.replace(
        SPEC, parameters=tuple(ParameterSpec((name,), (2,), "float32") for name in names)
    )
    blocks = cut_blocks(spec.parameters, 1, first_slot=0, min_block=1)
    plan = PartPlan(spec, blocks, 9, 0, dict.fromkeys(range(9), "server-1"))
    parameters = [nn.Parameter(torch.zeros(2)) for _ in names]
    steps = PartSteps(parameters, [{"lr": 0.1, "params": parameters}])
    numbers = ModelTensors(steps, spec.pace)
    gradients = {n: torch.full((2,), float(n)) for n in range(9)}
    assert numbers.hold(plan, Gradients(gradients, {})).is_finite

    leaders = msgspec.structs.replace(PUSH, blocks=tuple(range(9)), together=(3, 6))
    carrying.carry(errand(leaders), [IDS, ROWS], numbers, plan)
    [(_, message, buffers)] = server.asked
    assert message == msgspec.structs.replace(leaders, together=(9,))
    block, ids, _ = buffers
    assert block.view(np.float32).tolist() == [float(n) for n in range(9) for _ in "xx"]
    assert ids.view(np.int64).tolist() == [5]


def test_a_push_that_is_refused_as_a_whole_carries_no_block(
    server: Server, carrying: Carrying, numbers: ModelTensors
) -> None:
    void = Push(
        incarnation=4, timeline=0, part=0, number=8, window=PUSH.window, records=8, round=1
    )
    carrying.carry(errand(void), [], numbers, PLAN)
    assert server.asked == [("there", void, [])]


def test_values_of_a_pull_land_in_the_carriers_own_parameters(
    carrying: Carrying, numbers: ModelTensors
) -> None:
    pull = Pull(incarnation=4, timeline=0, part=0, at_round=1)
    carried = carrying.carry(errand(pull), [], numbers, PLAN)
    assert carried == wire.GroupCarried(3, Pulled(slots=(1,), round=1))
    numbers.settle()
    [parameter] = numbers.parameters
    assert parameter.tolist() == [[0.0] * 3] * 2 + [[2.0] * 3] * 2


def test_a_server_that_is_gone_is_the_leaders_to_deal_with(
    server: Server, numbers: ModelTensors
) -> None:
    def refuse(address: str, _incarnation: int) -> Connection:
        raise PeerLost(f"nobody at {address}")

    carrying = carrying_by(refuse, server)
    carried = carrying.carry(errand(PUSH), [IDS, ROWS], numbers, PLAN)
    assert carried == wire.GroupCarried(3, None, "nobody at there")


def test_what_comes_of_an_errand_that_was_given_up_is_passed_over() -> None:
    ours, theirs = socket.socketpair()
    place = wire.GroupPlace("trainer-0", 0, 2, (ours,), "", Sync())
    waits = Waits("trainer-0", ManualClock())
    followers = Followers(place, lambda *_: None, lambda _: None, waits)
    follower = FrameChannel(theirs, wire.INSTRUCTIONS, wire.LIMITS, "rank 0")
    late = wire.GroupCarried(1, None, "too late")
    follower.send(late)
    follower.send(wire.Next())
    assert followers.receive(1).message == wire.Next()
    follower.send(late)
    assert followers.receive(1, carried=True).message == late
    followers.close()
    follower.close()
