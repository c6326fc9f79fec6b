"""Plays a habit twice, as the plain loop and with paceline, and says what must hold.

A habit is a script of a few lines that does something beside the three lines of ours. It is
given a session: `Plain`, whose calls do what a loop without paceline does, or one of an
embedded job. What it returns is compared: a model by its parameters and buffers.

With two trainers every batch has the same records, so that a round's mean gradient is that
of one batch; the plain loop takes as many steps as rounds were committed.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

import paceline
from paceline.config import JobConfig
from paceline.launch.embedded import EmbeddedJob

RECORDS, BATCH, EPOCHS = 64, 8, 2
Touches = Literal["parameter", "buffer", "optimizer", "order", "data", "nothing"]
Script = Callable[[Any], Any]


class Habit(NamedTuple):
    """One habit, and what becomes of it.

    ``verdict``: *equal* to the plain loop, to the bit; *documented*: the script checks
    itself what the documents say; *refused* with a message that matches ``says``.
    """

    title: str
    touches: Touches
    verdict: Literal["equal", "documented", "refused"]
    script: Script
    says: str
    with_two: bool


HABITS: list[Habit] = []
_SEEDING = threading.Lock()  # torch has one generator for all threads


def equal(title: str, touches: Touches, *, with_two: bool = False) -> Any:
    """A habit that works as in the plain loop."""

    def add(script: Script) -> Script:
        HABITS.append(Habit(title, touches, "equal", script, "", with_two))
        return script

    return add


def documented(title: str, touches: Touches, says: str, *, with_two: bool = False) -> Any:
    """A habit that works as ``says``: the script checks it, and is given a session only.

    ``with_two``: of one of two trainers, who come to the same.
    """

    def add(script: Script) -> Script:
        HABITS.append(Habit(title, touches, "documented", script, says, with_two))
        return script

    return add


def refused(title: str, touches: Touches, says: str) -> Any:
    """A habit that works in the plain loop and is refused here, with this message."""

    def add(script: Script) -> Script:
        HABITS.append(Habit(title, touches, "refused", script, says, False))
        return script

    return add


class Plain:
    """The plain loop."""

    def __init__(self, steps: int | None = None) -> None:
        self._steps = steps  # of the only loop, where every batch is the same

    def share(self, _model: nn.Module, optimizer: Any = None) -> Any:
        return optimizer

    def unshare(self, _model: nn.Module) -> None:
        pass

    def batches(
        self,
        dataset: Any,
        batch_size: int,
        *,
        epochs: int = 1,
        shuffle: bool = True,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        **_: object,
    ) -> Iterator[Any]:
        assert not shuffle, "the plain loop has no order of ours"
        collate = collate_fn or torch.utils.data.default_collate
        if self._steps is not None:
            for _number in range(self._steps):
                yield cut(dataset, 0, batch_size, collate)
            return
        size = len(dataset) if hasattr(dataset, "__getitem__") else 0
        if isinstance(dataset, tuple | list) and isinstance(dataset[0], Tensor):
            size = len(dataset[0])
        for _epoch in range(epochs):
            for first in range(0, size, batch_size):
                yield cut(dataset, first, min(first + batch_size, size), collate)


def cut(dataset: Any, first: int, stop: int, collate: Callable[[list[Any]], Any]) -> Any:
    if isinstance(dataset, Tensor):
        return dataset[first:stop]
    if isinstance(dataset, tuple | list) and isinstance(dataset[0], Tensor):
        return tuple(column[first:stop] for column in dataset)
    return collate([dataset[index] for index in range(first, stop)])


def data(records: int = RECORDS) -> tuple[Tensor, Tensor]:
    """Features (records, 6) and targets (records, 1)."""
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(records, 6, generator=draw)
    return features, torch.randn(records, 1, generator=draw)


def same_data() -> tuple[Tensor, Tensor]:
    """As `data`, every batch of `BATCH` with the same records."""
    features, targets = data(BATCH)
    return features.repeat(RECORDS // BATCH, 1), targets.repeat(RECORDS // BATCH, 1)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def seeded(make: Callable[[], nn.Sequential]) -> nn.Sequential:
    """A model that is the same in every thread that makes it."""
    with _SEEDING:
        torch.manual_seed(1)
        return make()


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    rate = {"lr": 0.1, "fused": True, **options}
    return torch.optim.SGD(model.parameters(), **rate)


def loop(session: Any, **options: Any) -> Iterator[tuple[int, Tensor, Tensor]]:
    """The batches of `data`, numbered; in a job of two trainers those of `same_data`."""
    is_alone = not hasattr(session, "records_of_habit")
    records = options.pop("dataset", None) or (data() if is_alone else same_data())
    # Alone, a task is an epoch: whatever is read or kept within a task shows.
    said = {"epochs": EPOCHS, "shuffle": False, "task_size": RECORDS if is_alone else BATCH}
    said |= options
    for number, (features, target) in enumerate(session.batches(records, BATCH, **said)):
        yield number, features, target


def backward(model: nn.Module, features: Tensor, target: Tensor) -> Tensor:
    loss = functional.mse_loss(model(features), target)
    loss.backward()
    return loss


def numbers(found: Any) -> list[Tensor]:
    """What is compared of what a habit returns."""
    if isinstance(found, nn.Module):
        return [t.detach().clone() for t in [*found.parameters(), *found.buffers()]]
    if isinstance(found, Tensor):
        return [found.detach().clone()]
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [tensor for one in found for tensor in numbers(one)]
    return [torch.tensor(found)]


def play_plain(script: Script, steps: int | None = None) -> list[Tensor]:
    torch.manual_seed(0)
    plain = Plain(steps)
    if steps is not None:
        plain.records_of_habit = same_data  # type: ignore[attr-defined]
    return numbers(script(plain))


def play(script: Script, folder: Path) -> list[Tensor]:
    """With paceline, embedded."""
    torch.manual_seed(0)
    job = EmbeddedJob(JobConfig(run="habit"), folder)
    try:
        return numbers(script(job.session("trainer-0")))
    finally:
        job.close()


def play_with_two(script: Script, folder: Path) -> tuple[list[list[Tensor]], int]:
    """With two trainers in `sync`; what each came to, and how many rounds there were."""
    job = EmbeddedJob(JobConfig(run="habit", trainers=2), folder)
    found: dict[int, list[Tensor]] = {}
    errors: list[BaseException] = []

    def act(index: int) -> None:
        try:
            session = TwoTrainers(job.session(f"trainer-{index}"))
            found[index] = numbers(script(session))
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    torch.manual_seed(0)
    threads = [threading.Thread(target=act, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    job.close()
    assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    if errors:
        raise errors[0]
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    events = [msgspec.json.decode(line)["event"] for line in lines]
    return [found[0], found[1]], events.count("RoundCommitted")


class TwoTrainers:
    """A session of one of two trainers: every batch has the same records."""

    records_of_habit = staticmethod(same_data)

    def __init__(self, session: paceline.Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
