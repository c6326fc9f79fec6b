"""What never changes comes in pieces, and is written when the last of them is there."""

from collections.abc import Callable

import numpy as np
import pytest

from paceline.messages.data import KeepFrozen
from paceline.messages.shared import Beside, Done, FrozenSpec, Refusal
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.blobs.contents import read_constants
from tests.server.conftest import Array, Server

MakeServer = Callable[..., Server]
DATA = np.arange(10, dtype=np.uint8)
NAME = "0" * 32
BESIDE = Beside(
    (FrozenSpec(("w",), (10,), "uint8", "x"),), NAME, 10, digest(DATA.tobytes())
)


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    return make_server()


def keep(
    server: Server, first: int, stop: int, trainer: int = 11, data: Array = DATA
) -> object:
    message = KeepFrozen(
        incarnation=trainer, timeline=0, part=0, beside=BESIDE, first=first, stop=stop
    )
    answer = server.ask(message, [data[first:stop]], trainer)
    return answer.kind if isinstance(answer, Refusal) else answer


def is_written(store: BlobStore) -> bool:
    is_there = store.exists(f"constants/{NAME}")
    return is_there and read_constants(store, BESIDE) == bytes(DATA)


def test_the_last_piece_lets_all_be_written_however_often_one_comes(
    server: Server, store: BlobStore
) -> None:
    for first, stop in ((0, 4), (0, 4), (4, 8), (0, 4), (4, 8)):
        assert keep(server, first, stop) == Done()
        assert not is_written(store)
    for _ in range(2):
        assert keep(server, 8, 10) == Done()
        assert is_written(store)


def test_whoever_comes_after_a_trainer_that_died_begins_anew(
    server: Server, store: BlobStore
) -> None:
    keep(server, 0, 4, trainer=11, data=DATA[::-1])
    assert keep(server, 4, 10, trainer=12) == "gap", "the other's pieces are none of its"
    assert keep(server, 0, 4, trainer=12) == Done()
    assert keep(server, 4, 10, trainer=12) == Done()
    assert is_written(store)


@pytest.mark.parametrize(("first", "stop"), [(0, 11), (-1, 4), (4, 3)])
def test_pieces_that_cannot_be_are_refused(
    server: Server, store: BlobStore, first: int, stop: int
) -> None:
    assert keep(server, first, stop) == "invalid"
    assert not is_written(store)
