"""What scripts do to parameters beside stepping them."""

import copy
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn.utils import prune

import paceline
from paceline.trainer.engine import StepWarning
from tests.habits.playing import (
    backward,
    data,
    equal,
    loop,
    net,
    refused,
    seeded,
    sgd,
)


def train(
    session: Any, model: nn.Module, optimizer: Any, each: Any = lambda _: None
) -> Any:
    for number, features, target in loop(session):
        backward(model, features, target)
        optimizer.step()
        optimizer.zero_grad()
        each(number)
    return model


@equal("clamp weights under `no_grad` after each step", "parameter")
def clamp_under_no_grad(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))

    def clamp(_: int) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.05, 0.05)

    return train(session, model, optimizer, clamp)


@equal("clamp `p.data` after each step, as WGANs do", "parameter")
def clamp_data(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))

    def clamp(_: int) -> None:
        for parameter in model.parameters():
            parameter.data.clamp_(-0.05, 0.05)

    return train(session, model, optimizer, clamp)


@equal("clamp `p.data` every fifth step", "parameter")
def clamp_data_now_and_then(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number, features, target in loop(session, epochs=4):
            backward(model, features, target)
            optimizer.step()
            optimizer.zero_grad()
            if number % 5 == 4:
                for parameter in model.parameters():
                    parameter.data.clamp_(-0.05, 0.05)
    is_plain = not isinstance(session, paceline.Session)
    said = [str(one.message) for one in told if one.category is StepWarning]
    assert is_plain or ["may have been overwritten" in one for one in said] == [True]
    return model


@equal("initialise a layer anew in mid-loop", "parameter")
def reset_a_layer(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, momentum=0.9))

    def reset(number: int) -> None:
        if number == 8:
            nn.init.zeros_(model[2].weight)

    return train(session, model, optimizer, reset)


@equal("initialise the model after `share`", "parameter")
def init_after_share(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for layer in (model[0], model[2]):
        nn.init.constant_(layer.weight, 0.03)
    return train(session, model, optimizer)


@equal("load a pretrained `state_dict` after `share`", "parameter")
def pretrained_after_share(session: Any) -> Any:
    model = net()
    pretrained = {k: torch.full_like(v, 0.02) for k, v in model.state_dict().items()}
    optimizer = session.share(model, sgd(model))
    model.load_state_dict(pretrained)
    return train(session, model, optimizer)


@equal("go back to the best `state_dict` in mid-loop", "parameter")
def back_to_the_best(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    best: dict[str, Any] = {}

    def keep(number: int) -> None:
        if number == 3:
            best.update(copy.deepcopy(model.state_dict()))
        if number == 9:
            model.load_state_dict(best)

    return train(session, model, optimizer, keep)


@equal("keep weights on the unit sphere by hand", "parameter")
def project(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))

    def normalise(_: int) -> None:
        with torch.no_grad():
            model[0].weight.div_(model[0].weight.norm(dim=1, keepdim=True))

    return train(session, model, optimizer, normalise)


@equal("add noise to weights every fourth step", "parameter")
def noise(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    draw = torch.Generator().manual_seed(3)

    def shake(number: int) -> None:
        if number % 4 == 0:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.01)

    return train(session, model, optimizer, shake)


@equal("swap averaged weights in to look at the loss, and back", "parameter")
def swap_and_back(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    features, target = data(8)
    losses: list[Any] = []

    def look(number: int) -> None:
        if number % 4 != 0:
            return
        own = [parameter.detach().clone() for parameter in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
            losses.append(nn.functional.mse_loss(model(features), target))
            for parameter, value in zip(model.parameters(), own, strict=True):
                parameter.copy_(value)

    return [train(session, model, optimizer, look), losses]


@equal("put another tensor under `p.data`", "parameter")
def replace_data(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))

    def replace(number: int) -> None:
        if number == 1:
            model[2].weight.data = torch.full((1, 8), 0.25)

    return train(session, model, optimizer, replace)


@equal("freeze a layer in mid-loop", "parameter")
def freeze_later(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, weight_decay=0.01))

    def freeze(number: int) -> None:
        if number == 5:
            model[0].requires_grad_(False)

    return train(session, model, optimizer, freeze)


@equal("freeze a layer after `share`, unfreeze it in mid-loop", "parameter")
def freeze_and_unfreeze(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    model[0].requires_grad_(False)

    def unfreeze(number: int) -> None:
        if number == 4:
            model[0].requires_grad_(True)

    return train(session, model, optimizer, unfreeze)


@refused(
    "unfreeze what was frozen at `share`",
    "parameter",
    "'0.weight' was frozen when the model was shared, and is trainable now",
)
def unfreeze(session: Any) -> Any:
    model = net()
    model[0].requires_grad_(False)
    optimizer = session.share(model, sgd(model))

    def change(number: int) -> None:
        if number == 4:
            model[0].requires_grad_(True)

    return train(session, model, optimizer, change)


@equal("train half of a model, the rest frozen", "parameter", with_two=True)
def half_frozen(session: Any) -> Any:
    model = seeded(net)
    model[0].requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = session.share(model, torch.optim.SGD(trained, lr=0.1, fused=True))
    return train(session, model, optimizer)


@equal("tie two weights", "parameter", with_two=True)
def tied(session: Any) -> Any:
    model = seeded(
        lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 1))
    )
    model[2].weight = model[0].weight
    optimizer = session.share(model, sgd(model))
    return train(session, model, optimizer)


@equal("prune a layer before `share`", "parameter")
def pruned(session: Any) -> Any:
    model = net()
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    optimizer = session.share(model, sgd(model))
    return [*train(session, model, optimizer).parameters(), model[0].weight_mask]


@refused(
    "replace a parameter by another after `share`",
    "parameter",
    "'2.weight' is no parameter of the model any more",
)
def replaced(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    model[2].weight = nn.Parameter(torch.zeros(1, 8))
    return train(session, model, optimizer)


@refused(
    "`model.double()` after `share`",
    "parameter",
    "'0.weight' was shared as torch.float32 and is torch.float64 now",
)
def doubled(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    model.double()
    for _, features, target in loop(session):
        backward(model, features.double(), target.double())
        optimizer.step()
    return model


@equal("`unshare` between loops, unfreeze, a new optimizer, `share` again", "parameter")
def share_again(session: Any) -> Any:
    model = net()
    for thawed in (2, 0):
        for number, layer in enumerate(model):
            layer.requires_grad_(number >= thawed)
        trained = [p for p in model.parameters() if p.requires_grad]
        own = torch.optim.Adam(trained, lr=0.01, fused=True)
        train(session, model, session.share(model, own))
        session.unshare(model)
    return model


@refused(
    "`model.bfloat16()` in mid-loop",
    "parameter",
    "'0.weight' was shared as torch.float32 and is torch.bfloat16 now",
)
def halved(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for number, features, target in loop(session):
        if number == 4:
            model.bfloat16()
        dtype = model[0].weight.dtype
        backward(model, features.to(dtype), target.to(dtype))
        optimizer.step()
        optimizer.zero_grad()
    return model


@refused(
    "share a lazy module before its first forward",
    "parameter",
    "'0.weight' is of a lazy module and has no shape yet: run one forward first",
)
def lazy(session: Any) -> Any:
    model = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 1))
    optimizer = session.share(model, sgd(model))
    return train(session, model, optimizer)


@equal("a target network, moved after the trained one", "parameter")
def target_network(session: Any) -> Any:
    model = net()
    target = copy.deepcopy(model)
    optimizer = session.share(model, sgd(model))

    def follow(_: int) -> None:
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)

    return [train(session, model, optimizer, follow), target]


@equal("an average of weights (`AveragedModel`)", "parameter")
def averaged(session: Any) -> Any:
    model = net()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = session.share(model, sgd(model))
    found = train(session, model, optimizer, lambda _: average.update_parameters(model))
    return [found, average]
