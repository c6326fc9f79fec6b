"""What scripts do with buffers, rows and whole models."""

import copy
import io
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import paceline
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


class Counting(nn.Module):
    """Buffers as codebooks, centers and own statistics are often written."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)
        self.register_buffer("anew", torch.zeros(6))
        self.register_buffer("in_place", torch.zeros(6))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self.anew = 0.9 * self.anew + 0.1 * features.mean(0)
        self.in_place.add_(1)
        found: torch.Tensor = self.layer(features - self.anew)
        return found


@equal("BatchNorm", "buffer")
def batch_norm(session: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    return train(session, model, session.share(model, sgd(model)))


@equal("a buffer that is assigned anew", "buffer")
def assigned_anew(session: Any) -> Any:
    model = Counting()
    return train(session, model, session.share(model, sgd(model)))


@equal("set BatchNorm's averages back in mid-loop", "buffer")
def averages_set_back(session: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = session.share(model, sgd(model))

    def set_back(number: int) -> None:
        if number == 6:
            model[1].reset_running_stats()

    return train(session, model, optimizer, set_back)


@equal("freeze BatchNorm by `eval()` while the rest trains", "buffer")
def norm_in_eval(session: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = session.share(model, sgd(model))
    model[1].eval()
    return train(session, model, optimizer)


@equal("look at a validation batch inside the loop", "buffer")
def validated_inside(session: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = session.share(model, sgd(model))
    losses: list[Any] = []
    features, target = data(8)

    def look(_: int) -> None:
        model.eval()
        with torch.no_grad():
            losses.append(nn.functional.mse_loss(model(features), target))
        model.train()

    return [train(session, model, optimizer, look), losses]


@equal("recompute activations (`checkpoint`)", "nothing")
def recomputed(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        found = checkpoint(model, features.requires_grad_(True), use_reentrant=False)
        nn.functional.mse_loss(found, target).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("bfloat16 by `autocast`", "nothing", with_two=True)
def autocast(session: Any) -> Any:
    model = seeded(net)
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(features).float(), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("keep the best `state_dict` and load it behind the loop", "parameter")
def best_behind_the_loop(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    best: dict[str, Any] = {}

    def keep(number: int) -> None:
        if number == 5:
            best.update(copy.deepcopy(model.state_dict()))

    train(session, model, optimizer, keep)
    model.load_state_dict(best)
    return model


@equal("load the best `state_dict` and train on in another loop", "parameter")
def best_and_on(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    before = copy.deepcopy(model.state_dict())
    train(session, model, optimizer)
    model.load_state_dict(before)
    return train(session, model, optimizer)


@documented(
    "`session.set_values(model)` after values were changed",
    "parameter",
    "everybody goes on with them; outside loops on every trainer, inside with one alone",
    with_two=True,
)
def set_values(session: Any) -> Any:
    model = seeded(net)
    optimizer = session.share(model, sgd(model, lr=0.0))
    own = 0.25 if session.trainer == "trainer-0" else 0.5
    nn.init.constant_(model[2].weight, own)  # who comes first is the one who counts
    session.set_values(model)
    train(session, model, optimizer)
    assert set(model[2].weight.flatten().tolist()) in ({0.25}, {0.5})
    return model


@documented(
    "rows of a `paceline.Embedding` under the optimizer of `share`",
    "optimizer",
    "they follow it, lazily: as `nn.Embedding(sparse=True)` under torch's own",
)
def rows_follow(session: Any) -> None:
    model = paceline.Embedding("user", 4, init=paceline.Constant(0.5))
    weight = nn.Embedding(16, 4, sparse=True)
    nn.init.constant_(weight.weight, 0.5)
    dense = nn.Linear(4, 1)
    both = nn.ModuleList([model, dense])
    plain_dense = copy.deepcopy(dense)
    optimizer = session.share(both, torch.optim.SGD(dense.parameters(), lr=0.1, fused=True))
    one = torch.optim.SGD(weight.parameters(), lr=0.1)
    other = torch.optim.SGD(plain_dense.parameters(), lr=0.1, fused=True)
    for ids in session.batches(torch.arange(64) % 16, 8, shuffle=False):
        dense(model(ids)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        plain_dense(weight(ids)).square().mean().backward()
        one.step()
        other.step()
        one.zero_grad()
        other.zero_grad()
    model.eval()
    assert torch.equal(model(torch.arange(16)), weight.weight)
    assert torch.equal(dense.weight, plain_dense.weight)


@refused(
    "`torch.save(model)` with a `paceline.Embedding`",
    "nothing",
    "its rows lie on the servers; keep torch.save(model.state_dict())",
)
def pickled(session: Any) -> Any:
    is_ours = isinstance(session, paceline.Session)
    rows = paceline.Embedding("user", 4) if is_ours else nn.Embedding(16, 4)
    model = nn.ModuleDict({"rows": rows, "out": nn.Linear(4, 1)})
    session.share(model, sgd(model))
    torch.save(model, io.BytesIO())
    return torch.zeros(1)


@refused(
    "an `nn.Embedding` with `max_norm`",
    "parameter",
    "has max_norm=1.0, by which its forward changes the weight itself",
)
def max_norm(session: Any) -> Any:
    model = nn.Embedding(16, 4, max_norm=1.0)
    return model if session.share(model, sgd(model)) else None


@refused("`share` inside a loop", "nothing", "share the whole model before the loop")
def shared_inside(session: Any) -> Any:
    model, late = net(), net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        session.share(late, sgd(late))
        backward(model, features, target)
        optimizer.step()
    return model
