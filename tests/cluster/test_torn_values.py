"""A trainer that reads in the midst of another's update gets whole values all the same."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import Async
from paceline.messages.shared import Hyper
from paceline.params.bundle import Bundle
from paceline.params.published import ValuesReader
from paceline.trainer.tensors.shared_memory_pulls import DirectPulls
from paceline.transport.shared_memory import is_supported
from tests.system.whole import read_regardless, why_torn

pytestmark = pytest.mark.skipif(not is_supported(), reason="nothing is lent here")

LENGTH, PATIENCE_S = 8192, 30.0  # too short to be cut: one server holds it
WRITER, READER = "writer", "reader"


class Meeting:
    """The reader reads when the writer's update of a block is done by half."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_wanted = threading.Event()  # the reader is about to read
        self.is_halfway = threading.Event()  # half of a block is of the next version
        self.has_read = threading.Event()  # and the reader has looked at it
        self.found: list[bool] = []  # whether it got values there, without asking
        self._apply, self._read = Bundle.apply, DirectPulls.read
        monkeypatch.setattr(Bundle, "apply", self._apply_by_halves())
        monkeypatch.setattr(DirectPulls, "read", self._read_halfway())

    def _apply_by_halves(self) -> Callable[..., None]:
        def apply(
            bundle: Bundle, gradients: Mapping[int, torch.Tensor], hyper: Hyper
        ) -> None:
            if not self.is_wanted.is_set() or self.is_halfway.is_set():
                self._apply(bundle, gradients, hyper)
                return
            block = bundle.blocks[bundle.lead]
            before, half = block.values.clone(), len(block.values) // 2
            self._apply(bundle, gradients, hyper)
            after = block.values[half:].clone()
            block.values[half:] = before[half:]
            self.is_halfway.set()
            assert self.has_read.wait(PATIENCE_S)
            block.values[half:] = after

        return apply

    def _read_halfway(self) -> Callable[..., Any]:
        def read(pulls: DirectPulls, *arguments: Any) -> Any:
            is_reader = threading.current_thread().name == READER
            is_known = pulls._readers.get(arguments[0]) is not None
            if not is_reader or not is_known or self.is_wanted.is_set():
                return self._read(pulls, *arguments)
            self.is_wanted.set()
            assert self.is_halfway.wait(PATIENCE_S)
            found = self._read(pulls, *arguments)
            self.found.append(found is not None)
            self.has_read.set()
            return found

        return read


class Flat(nn.Module):
    """One parameter, which one server holds."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(LENGTH))


def read_amid_an_update(
    run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> tuple[Meeting, list[str | None]]:
    """What the reader's values were like before and after each step.

    Who comes back to the loop after a while without work reads before its step.
    """
    meeting = Meeting(monkeypatch)
    seen: list[str | None] = []

    def script(session: paceline.Session) -> None:
        model = Flat()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
        is_reader = session.once("reader")
        threading.current_thread().name = READER if is_reader else WRITER
        for _ in session.batches(torch.zeros(64), 1, task_size=4):
            if is_reader:
                seen.append(why_torn([model.values.detach()], 1, is_round=False))
            else:  # push when the reader is about to read, and not before
                assert meeting.is_wanted.wait(PATIENCE_S)
            (-model.values.sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
            if is_reader:
                seen.append(why_torn([model.values.detach()], 1, is_round=False))

    run(script, trainers=2, pace=Async())
    assert meeting.has_read.is_set()
    return meeting, seen


def test_values_read_amid_an_update_are_whole(
    run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting, seen = read_amid_an_update(run, monkeypatch)
    assert meeting.found == [False], "the server is asked"
    assert seen
    assert set(seen) == {None}


def test_a_reader_that_ignores_what_is_changing_is_caught(
    run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ValuesReader, "read_into", read_regardless)
    meeting, seen = read_amid_an_update(run, monkeypatch)
    assert meeting.found == [True]
    assert any(torn is not None for torn in seen), "nobody noticed"
