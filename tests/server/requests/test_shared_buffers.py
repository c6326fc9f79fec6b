"""Gradients that share a buffer are read as if each had its own."""

from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from paceline.config import Async
from paceline.errors import UsageError
from paceline.messages.data import Push
from paceline.messages.shared import Refusal
from paceline.server.answers.pushes import read_push
from paceline.server.requests.layouts import layout_of
from tests.server.conftest import Array, as_buffers, verdict
from tests.server.requests.test_decoding import MakeServer, plan_of, push


def together(counts: tuple[int, ...] = (2,), **changes: Any) -> tuple[Push, list[Array]]:
    """A push of two dense blocks in one buffer, and of all else behind."""
    message, (dense, bias, *others) = push(plan_of(Async()))
    flat = np.concatenate([dense.reshape(-1), bias])
    return msgspec.structs.replace(message, together=counts, **changes), [flat, *others]


def test_the_numbers_are_those_of_buffers_of_their_own() -> None:
    layout = layout_of(plan_of(Async()), "server-0")
    message, arrays = push(plan_of(Async()))
    alone = read_push(layout, message, as_buffers(arrays))
    message, arrays = together()
    found = read_push(layout, message, as_buffers(arrays))
    assert found.num_bytes == alone.num_bytes
    assert found.blocks.keys() == alone.blocks.keys()
    for slot, gradient in alone.blocks.items():
        assert torch.equal(found.blocks[slot], gradient)
    assert found.sparse.keys() == alone.sparse.keys()
    assert found.row_slots() == alone.row_slots()


def test_a_push_is_applied(make_server: MakeServer) -> None:
    server = make_server(plan=plan_of(Async()))
    assert verdict(server.ask(*together())) == "applied"


@pytest.mark.parametrize("counts", [(1,), (3,), (2, 0), (3, -1), (0, 2), (1, -2, 3)])
def test_counts_of_other_blocks_are_refused(
    counts: tuple[int, ...], make_server: MakeServer
) -> None:
    message, (flat, *others) = together(counts)
    arrays = [flat] * len(counts) + others
    server = make_server(plan=plan_of(Async()))
    answer = server.ask(message, arrays)
    assert isinstance(answer, Refusal)
    assert "expected" in answer.text
    assert server.version() == 0


@pytest.mark.parametrize("size", [0, 39, 41, 80])
def test_a_buffer_of_another_size_is_refused(size: int) -> None:
    message, (_, *others) = together()
    buffers = as_buffers([np.zeros(size, np.uint8), *others])
    with pytest.raises(UsageError, match=f"expected 40 bytes .*, got {size}$"):
        read_push(layout_of(plan_of(Async()), "server-0"), message, buffers)


@pytest.mark.parametrize("slots", [(0, 7), (0, 2)])
def test_no_block_or_one_of_rows_is_refused(slots: tuple[int, int]) -> None:
    message, arrays = together(blocks=slots, sparse_blocks=())
    with pytest.raises(UsageError, match="slot"):
        read_push(
            layout_of(plan_of(Async()), "server-0"),
            message,
            as_buffers([arrays[0], *arrays[3:]]),
        )


def test_two_dtypes_do_not_share() -> None:
    layout = layout_of(plan_of(Async()), "server-0")
    blocks = {**layout.blocks, 1: layout.blocks[1]._replace(dtype=torch.int32)}
    message, arrays = together()
    with pytest.raises(UsageError, match="of one dtype"):
        read_push(layout._replace(blocks=blocks), message, as_buffers(arrays))


def test_a_part_with_a_codec_has_buffers_of_their_own(make_server: MakeServer) -> None:
    server = make_server(plan=plan_of(Async(codec="fp16")))
    answer = server.ask(*together())
    assert isinstance(answer, Refusal)
    assert "without a codec" in answer.text
