"""What scripts do to data, and to the order of batches and steps."""

import itertools
import queue
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils import data as torch_data

from paceline.trainer.engine.engine import StepWarning
from tests.habits.playing import (
    Plain,
    backward,
    data,
    documented,
    equal,
    loop,
    net,
    refused,
    sgd,
)


class Items(torch_data.Dataset[Any]):
    """`data` record by record, with a level that the script may raise."""

    level = 0.0

    def __init__(self, *, is_noisy: bool = False) -> None:
        self._features, self._targets = data()
        self._is_noisy = is_noisy

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, index: int) -> Any:
        features = self._features[index] + self.level
        if self._is_noisy:
            features = features + 0.1 * torch.randn(features.shape)
        return features, self._targets[index]


def train(model: nn.Module, optimizer: Any, batches: Iterable[Any]) -> Any:
    for features, target in batches:
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("raise the level of a data set after a step", "data")
def curriculum(session: Any) -> Any:
    model, items = net(), Items()
    optimizer = session.share(model, sgd(model))
    for number, features, target in loop(session, dataset=items):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
        items.level = 0.1 * number
    return model


@equal("a data set that draws random numbers", "data")
def augmented(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session, dataset=Items(is_noisy=True)):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
        torch.rand(3)  # the loop draws, too
    return model


@equal("change the records in place while the loop runs", "data")
def changed_records(session: Any) -> Any:
    model, (features, targets) = net(), data()
    optimizer = session.share(model, sgd(model))
    for number, own, target in loop(session, dataset=(features, targets)):
        backward(model, own, target)
        optimizer.step()
        optimizer.zero_grad()
        features[8 * (number + 1) % 64 :] *= 0.9
    return model


@equal("random numbers in forward (dropout)", "data")
def dropout(session: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = session.share(model, sgd(model))
    torch.manual_seed(5)
    for _, features, target in loop(session):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("a `Subset` of a data set", "data")
def subset(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    half = torch_data.Subset(Items(), list(range(0, 64, 2)))
    return train(model, optimizer, session.batches(half, 8, shuffle=False))


@refused(
    "a list of columns instead of a tuple",
    "data",
    "if they are columns, give a tuple of them: session.batches((X, Y), ...)",
)
def list_of_tensors(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    return train(model, optimizer, session.batches([*data()], 8, shuffle=False))


@equal("a `collate_fn` that changes batches", "data")
def collated(session: Any) -> Any:
    def collate(items: list[Any]) -> Any:
        features, targets = torch_data.default_collate(items)
        return 2 * features, targets

    model = net()
    optimizer = session.share(model, sgd(model))
    found = session.batches(Items(), 8, shuffle=False, collate_fn=collate)
    return train(model, optimizer, found)


@equal("change a batch in place before using it", "data")
def changed_batch(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    # The plain loop copies its batches, too: else they would be parts of the data.
    is_plain = isinstance(session, Plain)
    for _, features, target in loop(session):
        own = features.clone() if is_plain else features
        backward(model, own.mul_(0.5), target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("use only the second half of each batch", "data")
def half_batches(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        backward(model, features[4:], target[4:])
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("accumulate over parts of one batch", "order")
def parts_of_a_batch(session: Any) -> Any:
    """The step of a batch is its last one: gradients of parts are accumulated."""
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        for half in (slice(0, 4), slice(4, 8)):
            backward(model, features[half], target[half])
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("skip batches by `continue`", "order")
def skipped(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for number, features, target in loop(session, task_size=64):
        if number % 4 == 1:
            continue
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("`zip` and `enumerate` over the loop", "order")
def zipped(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    batches = session.batches(data(), 8, epochs=2, shuffle=False)
    for _, (features, target) in zip(itertools.count(), batches, strict=False):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("a loop for each epoch", "order")
def loop_of_each_epoch(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _ in range(3):
        train(model, optimizer, session.batches(data(), 8, shuffle=False))
    return model


@equal("`break`, and another loop", "order")
def broken_off(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for number, features, target in loop(session):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
        if number == 4:
            break
    return train(model, optimizer, session.batches(data(), 8, shuffle=False))


@equal("make a loop and never iterate it", "order")
def never_iterated(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    session.batches(data(), 8, shuffle=False)
    return train(model, optimizer, session.batches(data(), 8, shuffle=False))


def one_ahead(batches: Iterable[Any]) -> Iterator[Any]:
    """As it is written for copies to a GPU."""
    last = None
    for batch in batches:
        if last is not None:
            yield last
        last = batch
    if last is not None:
        yield last


@equal("a prefetcher, one batch ahead, with `lookahead=1`", "order")
def prefetched(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _epoch in range(2):
        batches = session.batches(data(), 8, shuffle=False, lookahead=1)
        train(model, optimizer, one_ahead(batches))
    return model


@refused("a prefetcher without `lookahead`", "order", "lookahead=1")
def prefetched_unsaid(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    batches = one_ahead(session.batches(data(), 8, shuffle=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # the next habit's
        return train(model, optimizer, batches)


@documented(
    "a prefetcher without `lookahead`, left by `break`",
    "order",
    "a `StepWarning` says at its second step that one batch more counts than was trained",
)
def prefetched_unsaid_and_left(session: Any) -> None:
    model = net()
    optimizer = session.share(model, sgd(model))
    batches = one_ahead(session.batches(data(), 8, shuffle=False))
    train(model, optimizer, itertools.islice(batches, 1))
    with pytest.warns(StepWarning, match=r"after 2 batches.*lookahead=1"):
        train(model, optimizer, itertools.islice(batches, 1))
    train(model, optimizer, itertools.islice(batches, 1))


@equal("each batch is compared with the one before it", "order")
def by_pairs(session: Any) -> Any:
    model, before = net(), None
    optimizer = session.share(model, sgd(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # it looks like a prefetcher
        for features, target in session.batches(data(), 8, shuffle=False):
            if before is not None:
                loss = mse_loss(model(features) - model(before), target)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            before = features
    return model


@refused("batches taken in another thread than their steps", "order", "thread")
def fed_by_a_thread(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    batches = session.batches(data(), 8, shuffle=False)
    waiting: queue.Queue[Any] = queue.Queue(2)

    def feed() -> None:
        try:
            for batch in batches:
                waiting.put(batch)
        except BaseException as error:  # noqa: BLE001  (raised where it is taken)
            waiting.put(error)
        waiting.put(None)

    threading.Thread(target=feed, daemon=True).start()
    for batch in iter(waiting.get, None):
        if isinstance(batch, BaseException):
            raise batch
        backward(model, *batch)
        optimizer.step()
        optimizer.zero_grad()
    return model


@refused(
    "a `DataLoader` instead of its data set",
    "data",
    "give its data set: session.batches(loader.dataset, batch_size=8",
)
def data_loader(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    loader = torch_data.DataLoader(Items(), batch_size=8)
    return train(model, optimizer, session.batches(loader, 8, shuffle=False))


@documented(
    "loop again over shuffled data",
    "order",
    "every epoch of every loop has an order of its own, the same on every trainer",
)
def own_orders(session: Any) -> None:
    model = net()
    optimizer = session.share(model, sgd(model))
    orders = []
    for _ in range(2):
        orders.append([])
        for ids in session.batches(torch.arange(64), 8):
            orders[-1] += ids.tolist()
            backward(model, torch.ones(8, 6), torch.ones(8, 1))
            optimizer.step()
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(64))
    assert orders[0] != orders[1]
