"""What a script does to a shared optimizer that no server would hear of is refused."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

from paceline.config import Async, Sync
from paceline.errors import UsageError
from paceline.trainer.engine import StepWarning
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

DATA = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
Change = Callable[[torch.optim.Optimizer], object]


def make_net() -> nn.Module:
    return nn.Linear(3, 1)


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def step_after(
    session: Session,
    change: Change,
    make: Callable[[nn.Module], torch.optim.Optimizer] = sgd,
    *,
    is_own: bool = False,
) -> None:
    """One good step, then the change, then a step that is to be refused."""
    model = make_net()
    own = make(model)
    optimizer = session.share(model, own)
    for number, batch in enumerate(session.batches(DATA, 2, shuffle=False)):
        model(batch).sum().backward()
        if number == 1:
            change(own if is_own else optimizer)
        optimizer.step()
        optimizer.zero_grad()


def put(name: str, value: object) -> Change:
    def change(optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0][name] = value

    return change


def append_parameter(optimizer: torch.optim.Optimizer) -> None:
    optimizer.param_groups[0]["params"].append(nn.Parameter(torch.ones(2)))


def take_parameter_out(optimizer: torch.optim.Optimizer) -> None:
    del optimizer.param_groups[0]["params"][0]


def append_group(optimizer: torch.optim.Optimizer) -> None:
    optimizer.param_groups.append({"params": [nn.Parameter(torch.ones(2))], "lr": 0.1})


def replace_groups(optimizer: torch.optim.Optimizer) -> None:
    optimizer.param_groups = [dict(group) for group in optimizer.param_groups]


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (append_parameter, r"group 0 has got another parameter, of shape \(2,\)"),
        (take_parameter_out, "parameters of group 0 are not those that were shared"),
        (append_group, "expected 1 parameter groups, as when the model was shared, got 2"),
        (replace_groups, "param_groups is another list"),
        (put("lr", "fast"), "'lr' of parameter group 0 was 0.1 .* got 'fast'"),
        (put("lr", torch.ones(2)), "expected a number, got tensor"),
        (lambda o: o.param_groups[0].pop("momentum"), "'momentum' .* is gone"),
        (lambda o: o.add_param_group({"params": []}), "what is shared cannot grow"),
    ],
)
def test_groups_that_no_server_hears_of(
    session: Session, change: Change, message: str, is_own: bool
) -> None:
    with pytest.raises(UsageError, match=message):
        step_after(session, change, is_own=is_own)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (torch.optim.Adam, "amsgrad", True),
        (torch.optim.AdamW, "amsgrad", True),
        (torch.optim.RMSprop, "momentum", 0.9),
        (torch.optim.RMSprop, "centered", True),
    ],
)
def test_state_that_would_be_missing(
    session: Session, kind: type[torch.optim.Optimizer], name: str, value: object
) -> None:
    with pytest.raises(UsageError, match=f"{name}={value} of parameter group 0 was switch"):
        step_after(session, put(name, value), lambda m: kind(m.parameters()))


def test_a_list_of_parameters_that_was_made_anew_is_as_good(session: Session) -> None:
    def remake(optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0]["params"] = list(optimizer.param_groups[0]["params"])

    step_after(session, remake)
    assert session.records == len(DATA)


@pytest.mark.parametrize("name", ["momentum", "weight_decay"])
def test_weights_that_change_by_rows_stay_so(session: Session, name: str) -> None:
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = session.share(table, sgd(table))

    def loop() -> None:
        for batch in session.batches(torch.arange(4), 2):
            table(batch).sum().backward()
            optimizer.step()
            optimizer.param_groups[0][name] = 0.9

    with pytest.raises(UsageError, match=f"'weight' was shared .* by rows, and {name} of"):
        loop()


# ------------------------------------------------------------ state, copies


def test_reading_the_state_says_where_it_is(session: Session) -> None:
    model = make_net()
    own = torch.optim.Adagrad(model.parameters())
    optimizer = session.share(model, own)
    for one in (own, optimizer):
        with pytest.raises(UsageError, match="lies on the servers"):
            one.state[model.weight]["sum"]
        with pytest.raises(UsageError, match="lies on the servers"):
            one.state.get(model.weight)
        calls: list[Callable[[Any], object]] = [
            lambda state: model.weight in state,
            lambda state: state.clear(),
            lambda state: state.pop(model.weight),
            lambda state: state.update({}),
            lambda state: state.setdefault(model.weight, {}),
            lambda state: state.__setitem__(model.weight, {}),
        ]
    for one in (own, optimizer):
        for call in calls:
            with pytest.raises(UsageError, match="neither to be read nor to be changed"):
                call(one.state)


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_shared_optimizer_is_not_copied(
    session: Session, copying: Callable[[object], object]
) -> None:
    model = make_net()
    optimizer = session.share(model, sgd(model))
    with pytest.raises(UsageError, match=r"keep optimizer.state_dict\(\)"):
        copying(optimizer)


def test_a_copy_of_the_users_own_object_is_an_ordinary_one(session: Session) -> None:
    model = make_net()
    own = sgd(model)
    session.share(model, own)
    copied = copy.deepcopy(own)
    [parameter] = [p for p in copied.param_groups[0]["params"] if p.ndim == 2]
    parameter.grad = torch.ones_like(parameter)
    before = parameter.detach().clone()
    copied.step()
    assert torch.equal(parameter, before - 0.1)


def test_a_bound_embedding_is_not_pickled(session: Session) -> None:
    model = nn.Sequential(session.embedding("user", 3), nn.Linear(3, 1))
    with pytest.raises(UsageError, match=r"'user' cannot be pickled .* checkpoint export"):
        torch.save(model, io.BytesIO())
    torch.save(model.state_dict(), io.BytesIO())


def test_an_embedding_without_rows_is_pickled_as_what_it_is() -> None:
    found = pickle.loads(pickle.dumps(Embedding("user", 3, padding_idx=0)))
    assert (found.spec, found.padding_idx) == (Embedding("user", 3).spec, 0)


def test_a_copied_embedding_reads_the_same_rows() -> None:
    with FakeJob().session() as session:
        model = nn.Sequential(session.embedding("user", 3), nn.Linear(3, 1))
        average = swa_utils.AveragedModel(model)
        optimizer = session.share(model, sgd(model))
        for batch in session.batches(torch.arange(4), 4):
            model(batch).sum().backward()
            optimizer.step()
            average.update_parameters(model)
        model.eval()
        average.eval()
        ids = torch.arange(4)
        assert average.module[0] is not model[0]
        assert torch.equal(average.module[0](ids), model[0](ids))
        assert not torch.equal(model[0](ids), torch.zeros(4, 3))


# ------------------------------------------------------------ arguments of share


def refusal_of(session: Session, *args: Any) -> str:
    with pytest.raises(UsageError) as refused:
        session.share(*args)
    return str(refused.value)


def test_share_says_what_to_write(session: Session) -> None:
    model = make_net()
    own = sgd(model)
    asked = {
        "swapped: write optimizer = session.share": (own, model),
        "takes the model, not its parameters": (model.parameters(), own),
        "nn.ModuleList": ([model], own),
        "nn.ModuleDict": ({"a": model}, own),
        "got the class Linear: make one": (nn.Linear, own),
        "got the class SGD": (model, torch.optim.SGD),
        "got a scheduler": (model, lr_scheduler.ExponentialLR(own, 0.5)),
        "a pace is named: pace=": (model, "sync"),
    }
    for message, args in asked.items():
        assert message in refusal_of(session, *args)
    optimizer = session.share(model, own)
    assert "'weight' is shared already" in refusal_of(session, model, own)
    assert "what share returned before" in refusal_of(session, make_net(), optimizer)


def test_a_step_of_the_users_own_is_refused(session: Session) -> None:
    model = make_net()
    own = sgd(model)
    own.step = lambda: None  # type: ignore[method-assign]  # what the test is about
    assert "its step was replaced" in refusal_of(session, model, own)


def test_a_differentiable_step_is_refused(session: Session) -> None:
    model = make_net()
    assert "differentiable=True" in refusal_of(
        session, model, sgd(model, differentiable=True)
    )


def test_a_pace_that_comes_too_late_is_refused() -> None:
    with FakeJob(pace=Sync()).session() as session:
        rows = session.embedding("rows", 1)
        model = nn.ModuleList([rows])
        with pytest.raises(
            UsageError, match="'rows' are shared already, at sync, and pace"
        ):
            session.share(model, pace=Async(push_every=4))
        with pytest.raises(UsageError, match="and overlap=True would change nothing"):
            session.share(model, overlap=True)
        session.share(model)
        session.share(model, pace=Sync())
        dense = nn.Sequential(rows, nn.Linear(1, 1))
        told = (
            "'rows' are shared already, and stay at sync; pace=async:push=4,pull=1 is that"
        )
        with pytest.warns(StepWarning, match=told):
            session.share(dense, sgd(dense), pace=Async(push_every=4))
        same = nn.Sequential(rows, nn.Linear(1, 1))
        session.share(same, sgd(same), pace=Sync())
        unsaid = nn.Sequential(rows, nn.Linear(1, 1))
        session.share(unsaid, sgd(unsaid))
