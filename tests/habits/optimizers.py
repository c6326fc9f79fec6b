"""What scripts do to optimizers and gradients."""

from typing import Any

import torch
from torch import nn

import paceline
from tests.habits.parameters import train
from tests.habits.playing import backward, data, equal, loop, net, refused, seeded, sgd


@equal("change the learning rate by hand", "optimizer")
def rate_by_hand(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))

    def halve(number: int) -> None:
        if number % 4 == 3:
            optimizer.param_groups[0]["lr"] *= 0.5

    return train(session, model, optimizer, halve)


@equal("a scheduler on the optimizer that was given to `share`", "optimizer")
def scheduler_on_own(session: Any) -> Any:
    model = net()
    own = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(own, 3, gamma=0.5)
    optimizer = session.share(model, own)
    return train(session, model, optimizer, lambda _: scheduler.step())


@equal("a scheduler on the optimizer that `share` returned", "optimizer")
def scheduler_on_shared(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=20)
    return train(session, model, optimizer, lambda _: scheduler.step())


@equal("groups with a rate and a decay of their own", "optimizer", with_two=True)
def groups(session: Any) -> Any:
    model = seeded(net)
    own = torch.optim.AdamW(
        [
            {"params": model[0].parameters(), "lr": 1e-2, "weight_decay": 0.1},
            {"params": model[2].parameters(), "lr": 1e-3, "weight_decay": 0.0},
        ],
        fused=True,
    )
    return train(session, model, session.share(model, own))


@equal("momentum switched on in mid-loop", "optimizer")
def momentum_later(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))

    def accelerate(number: int) -> None:
        if number == 5:
            optimizer.param_groups[0]["momentum"] = 0.9

    return train(session, model, optimizer, accelerate)


@equal("a step pre-hook that was registered before `share`", "optimizer")
def hook_before(session: Any) -> Any:
    model = net()
    own = sgd(model)

    def halve(*_: object) -> None:
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(0.5)

    own.register_step_pre_hook(halve)
    return train(session, model, session.share(model, own))


@equal("a step post-hook on what `share` returned", "optimizer")
def hook_after(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    counted = [0]

    def count(*_: object) -> None:
        counted[0] += 1

    optimizer.register_step_post_hook(count)
    return [train(session, model, optimizer), counted[0]]


@equal("clip the norm of gradients", "optimizer", with_two=True)
def clipped(session: Any) -> Any:
    model = seeded(net)
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        backward(model, features, target)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("change gradients in place before the step", "optimizer", with_two=True)
def scaled_gradients(session: Any) -> Any:
    model = seeded(net)
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        backward(model, features, target)
        model[2].weight.grad.mul_(0.25)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("set gradients by hand", "optimizer", with_two=True)
def gradients_by_hand(session: Any) -> Any:
    model = seeded(net)
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):
        loss = nn.functional.mse_loss(model(features), target)
        found = torch.autograd.grad(loss, list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), found, strict=True):
            parameter.grad = gradient.sign()
        optimizer.step()
    return model


@equal("a hook on a tensor that changes its gradient", "optimizer", with_two=True)
def tensor_hook(session: Any) -> Any:
    model = seeded(net)
    optimizer = session.share(model, sgd(model))
    model[0].weight.register_hook(lambda gradient: gradient * 0.5)
    return train(session, model, optimizer)


@equal("accumulate four batches to a step", "optimizer")
def accumulated(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for number, features, target in loop(session, task_size=64):
        backward(model, features, target)
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    return model


@equal("keep gradients as zeros (`set_to_none=False`)", "optimizer")
def kept_as_zeros(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, momentum=0.9))
    for number, features, target in loop(session):
        if number % 2:
            backward(model, features, target)
        else:
            nn.functional.mse_loss(model[2](model[0](features).tanh()), target).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return model


@equal("a parameter without a gradient in some steps", "optimizer")
def used_now_and_then(session: Any) -> Any:
    model = nn.ModuleList([nn.Linear(6, 1), nn.Linear(6, 1)])
    optimizer = session.share(model, sgd(model, momentum=0.9, weight_decay=0.1))
    for number, features, target in loop(session):
        backward(model[number % 2], features, target)
        optimizer.step()
        optimizer.zero_grad()
    return model


@equal("maximise instead of minimise", "optimizer")
def maximised(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model, maximize=True, lr=0.01))
    return train(session, model, optimizer)


@equal("a GradScaler that unscales and clips", "optimizer")
def grad_scaler(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for _, features, target in loop(session):
        scaler.scale(nn.functional.mse_loss(model(features), target)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return model


@equal("two models with an optimizer each", "optimizer")
def two_models(session: Any) -> Any:
    first, second = net(), net()
    one = session.share(first, sgd(first))
    other = session.share(second, sgd(second, lr=0.01))
    for _, features, target in loop(session):
        backward(first, features, target)
        backward(second, features, target)
        for optimizer in (one, other):
            optimizer.step()
            optimizer.zero_grad()
    return [first, second]


@refused(
    "step the optimizer that was given to `share`",
    "optimizer",
    "keep what share returned: optimizer = session.share(model, optimizer)",
)
def own_optimizer(session: Any) -> Any:
    model = net()
    own = sgd(model)
    session.share(model, own)
    return train(session, model, own)


@refused(
    "never step", "optimizer", "no step() was called in this loop over session.batches"
)
def never_stepped(session: Any) -> Any:
    model = net()
    session.share(model, sgd(model))
    for _, features, target in loop(session):
        backward(model, features, target)
    return model


@refused(
    "add a parameter group after `share`",
    "optimizer",
    "add_param_group: what is shared cannot grow",
)
def grown(session: Any) -> Any:
    model = net()
    own = sgd(model)
    optimizer = session.share(model, own)
    own.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    return train(session, model, optimizer)


@refused(
    "`step(closure)`",
    "optimizer",
    "an optimizer that evaluates the model again cannot be shared",
)
def with_closure(session: Any) -> Any:
    model = net()
    optimizer = session.share(model, sgd(model))
    for _, features, target in loop(session):

        def closure() -> Any:
            optimizer.zero_grad()
            return backward(model, features, target)  # noqa: B023  (called at once)

        optimizer.step(closure)
    return model


@refused(
    "an optimizer that looks at whole matrices",
    "optimizer",
    "no server knows the optimizer torch.optim.Muon: it makes whole matrices orthogonal",
)
def whole_matrices(session: Any) -> Any:
    model = nn.Linear(6, 1, bias=False)
    optimizer = session.share(model, torch.optim.Muon(model.parameters()))
    return train(session, model, optimizer)


@refused(
    "share an optimizer that has stepped",
    "optimizer",
    "the SGD has stepped already, and its state does not travel",
)
def has_stepped(session: Any) -> Any:
    model = net()
    own = sgd(model, momentum=0.9)
    features, target = data(8)
    backward(model, features, target)
    own.step()
    own.zero_grad()
    return train(session, model, session.share(model, own))


@refused(
    "`share(optimizer, model)`",
    "optimizer",
    "the first argument is an optimizer (SGD), swapped",
)
def swapped(session: Any) -> Any:
    model = net()
    own = sgd(model)
    if isinstance(session, paceline.Session):
        own = session.share(own, model)  # type: ignore[arg-type]
    return train(session, model, own)


@refused(
    "momentum switched on later for sparse weights",
    "optimizer",
    "momentum of SGD changes rows without a gradient, too",
)
def momentum_of_rows(session: Any) -> Any:
    model = nn.Embedding(16, 4, sparse=True)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for number, ids in enumerate(session.batches(torch.arange(64) % 16, 8, shuffle=False)):
        if number == 3:
            optimizer.param_groups[0]["momentum"] = 0.9
        model(ids).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model
