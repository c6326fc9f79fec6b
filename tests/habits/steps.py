"""What scripts do to the state of optimizers, and to when and where a step is taken."""

import copy
from collections import defaultdict
from typing import Any

import torch

from tests.habits.parameters import train
from tests.habits.playing import (
    backward,
    data,
    documented,
    equal,
    loop,
    net,
    refused,
    seeded,
    sgd,
)


@refused(
    "roll back by `optimizer.load_state_dict` after a step",
    "optimizer",
    "load_state_dict after a step: the optimizer's state lies on the servers and would",
)
def rolled_back(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, momentum=0.9))
    saved = copy.deepcopy(optimizer.state_dict())
    for number, features, target in loop(session):
        if number == 5:
            optimizer.load_state_dict(saved)
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@refused(
    "forget momentum by `optimizer.state.clear()`",
    "optimizer",
    "optimizer.state: the state of a shared optimizer lies on the servers",
)
def momentum_forgotten(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, momentum=0.9))
    for number, features, target in loop(session):
        if number == 5:
            optimizer.state.clear()
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@refused(
    "assign `optimizer.state` anew",
    "optimizer",
    "step() after optimizer.state = ...: optimizer.state: the state of a shared optimizer",
)
def momentum_replaced(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, momentum=0.9))
    for number, features, target in loop(session):
        if number == 5:
            optimizer.state = defaultdict(dict)
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("OneCycleLR, which moves momentum as well", "optimizer")
def one_cycle(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, momentum=0.9))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=16)
    for _, features, target in loop(session):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model


@refused(
    "two steps over one batch, each over a half of it",
    "order",
    "step() without a batch since the last step of this part",
)
def two_steps(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        for half in (slice(0, 4), slice(4, 8)):
            backward(model, features[half], target[half])
            optimizer.step()
            optimizer.zero_grad()
    return model


@equal("sharpness-aware steps: away from the values, and back", "parameter")
def sharpness_aware(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        backward(model, features, target)
        before = [parameter.data.clone() for parameter in model.parameters()]
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.data.add_(parameter.grad, alpha=0.05)
        optimizer.zero_grad()
        backward(model, features, target)
        for parameter, value in zip(model.parameters(), before, strict=True):
            parameter.data.copy_(value)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("`weight_norm` before `share`", "parameter")
def normed_weights(session: Any) -> Any:
    model = net()
    torch.nn.utils.parametrizations.weight_norm(model[0])
    optimizer = session.share(model, sgd(model))
    return train(session, model, optimizer)


@documented(
    "accumulate 5 batches to a step, of 8 in an epoch",
    "order",
    "what is left over at the end of an epoch is stepped there",
)
def left_over(session: Any) -> None:
    model = seeded(net)
    plain = copy.deepcopy(model)
    optimizer, own = session.share(model, sgd(model)), sgd(plain)
    batches = data()
    last = 7
    for number, features, target in loop(session, epochs=1):
        backward(model, features, target)
        if number % 5 == 4:
            optimizer.step()
            optimizer.zero_grad()
    for number in range(last + 1):
        rows = slice(8 * number, 8 * number + 8)
        backward(plain, batches[0][rows], batches[1][rows])
        if number % 5 == 4 or number == last:
            own.step()
            own.zero_grad()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
