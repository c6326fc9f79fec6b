"""A server tells where its dense values lie, and they are over when it returns to a cut."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from paceline.config import Async, Pace
from paceline.messages.data import Pull, Pulled, ValuesPlace
from paceline.messages.server import CutReport, Restore, Snapshot
from paceline.params.published import ValuesReader
from paceline.timing import Deadline
from paceline.transport.shared_memory import find_memory, is_supported
from tests.server.conftest import CLOCK, PATIENCE_S, Server, make_plan, window

MakeServer = Callable[..., Server]

pytestmark = pytest.mark.skipif(not is_supported(), reason="nothing is lent here")


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    return make_server(plan=make_plan())


def ask(server: Server, **fields: object) -> Pulled:
    who = {"incarnation": 99, "timeline": server.timeline, "part": 0}
    answered = server.ask(Pull(**who, **fields))  # type: ignore[arg-type]
    assert isinstance(answered, Pulled)
    return answered


def place_of(server: Server) -> ValuesPlace:
    place = ask(server, asks_place=True).place
    assert place is not None
    return place


def reader_of(server: Server, place: ValuesPlace) -> ValuesReader:
    memory = find_memory(place.pid, place.descriptor, place.num_bytes)
    assert memory is not None
    sizes = {slot: values.nbytes for slot, values in server.pull().items()}
    return ValuesReader(memory, sizes, place.key)


def read(reader: ValuesReader, server: Server) -> dict[int, np.ndarray] | None:
    places = {s: np.zeros(v.nbytes, np.uint8) for s, v in server.pull().items()}
    if reader.read_into(places, 0) is None:
        return None
    return {slot: place.view(np.float64) for slot, place in places.items()}


def go_back(server: Server, timeline: int, cut: int) -> None:
    """Take a cut, and return to it."""
    snapshot = Snapshot(cut=cut, folder=f"cut-{cut}", rounds={})
    report = server.coordinator.order(snapshot, until=lambda r: bool(r.answers))
    [taken] = [answer for answer in report.answers if isinstance(answer, CutReport)]
    restore = Restore(
        timeline=timeline,
        cut=cut,
        folder=f"cut-{cut}",
        plans=(server.plan,),
        files=taken.files,
        rounds={},
    )
    server.timeline = timeline
    server.coordinator.order(restore, until=lambda r: r.ready and r.timeline == timeline)


def test_the_place_is_told_to_those_who_ask(server: Server) -> None:
    assert ask(server).place is None
    assert place_of(server) == place_of(server)


def test_what_a_push_has_changed_is_read_there(server: Server) -> None:
    reader = reader_of(server, place_of(server))
    gradients = {slot: np.ones_like(values) for slot, values in server.pull().items()}
    server.push(1, window(0), blocks=gradients)
    found = read(reader, server)
    assert found is not None
    for slot, values in server.pull().items():
        assert values.any()
        np.testing.assert_array_equal(found[slot], values)


@pytest.mark.parametrize("pace", [Async(merge=4), Async(isolation="hogwild")], ids=str)
def test_what_pushes_that_met_have_changed_is_read_there(
    make_server: MakeServer, pace: Async
) -> None:
    server = make_server(plan=make_plan(pace=pace))
    reader = reader_of(server, place_of(server))

    def train(trainer: int) -> None:
        for number in range(30):
            pushed = window(number, task=trainer)
            blocks = {0: np.ones(6), 1: np.ones(4)}
            server.push(number + 1, pushed, blocks=blocks, trainer=trainer)

    threads = [threading.Thread(target=train, args=(trainer,)) for trainer in range(20, 24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(reader, server)
    assert found is not None, "all that was decided is done"
    for slot, values in server.pull().items():
        assert values.any()
        np.testing.assert_array_equal(found[slot], values)


def test_who_reads_there_is_told_when_and_gets_no_values(server: Server) -> None:
    answered = server.submit(Pull(incarnation=99, timeline=0, part=0, reads_there=True))
    assert answered.wait() == Pulled(slots=(), round=0, is_there=True)
    assert not answered.buffers


def test_a_return_ends_the_place_and_makes_another(server: Server) -> None:
    place = place_of(server)
    reader = reader_of(server, place)
    go_back(server, 1, cut=1)
    assert read(reader, server) is None
    assert place_of(server).key != place.key


def test_a_server_that_ends_lends_nothing(server: Server) -> None:
    place = place_of(server)
    reader = reader_of(server, place)
    places = {s: np.zeros(v.nbytes, np.uint8) for s, v in server.pull().items()}
    server.close()
    assert reader.read_into(places, 0) is None
    assert find_memory(place.pid, place.descriptor, place.num_bytes) is None


@pytest.fixture
def uncollected() -> Iterator[None]:
    """A server makes too little garbage for a collector to come by often."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def lent_pieces() -> int:
    """Memory to lend that this process maps."""
    return Path("/proc/self/maps").read_text().count("/memfd:paceline")


def train(server: Server) -> None:
    """Push once, so that optimizers have state."""
    gradients = {slot: np.ones_like(values) for slot, values in server.pull().items()}
    server.push(1, window(server.timeline), blocks=gradients)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("pace", [Async(), Async(isolation="hogwild")], ids=str)
def test_values_that_are_over_are_given_up_at_once(
    make_server: MakeServer, pace: Pace
) -> None:
    server = make_server(plan=make_plan(pace=pace))
    train(server)
    lent = lent_pieces()
    for timeline in range(1, 4):
        go_back(server, timeline, cut=timeline)
        train(server)
        deadline = Deadline(CLOCK, PATIENCE_S)
        while lent_pieces() > lent:  # whoever wrote the cut may still be ending
            assert not deadline.is_over(), "nobody but a collector would come by"
            time.sleep(0.01)
