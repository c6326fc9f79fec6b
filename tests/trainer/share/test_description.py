import pytest
import torch
from torch import nn

from paceline.errors import UsageError
from paceline.trainer.share.description import describe
from paceline.trainer.tensors.payload import hyper_of


def test_tied_parameters_are_one_with_several_names() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    found = describe(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert [spec.names for spec in found.specs] == [("a.weight", "b.weight"), ("b.bias",)]


def test_frozen_parameters_are_left_out() -> None:
    model = nn.Linear(2, 2).requires_grad_(False)
    model.weight.requires_grad_(True)
    found = describe(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert [spec.names for spec in found.specs] == [("weight",)]


def test_parameters_know_their_group_and_dtype() -> None:
    model = nn.ParameterList([torch.ones(1), torch.ones(2, dtype=torch.float64)])
    groups = [{"params": [model[1]], "lr": 0.5}, {"params": [model[0]]}]
    found = describe(model, torch.optim.SGD(groups, lr=0.1))
    assert [(spec.dtype, spec.group) for spec in found.specs] == [
        ("float32", 1),
        ("float64", 0),
    ]
    assert found.optimizer is not None
    assert found.optimizer.kind == "SGD"
    assert [group["lr"] for group in found.optimizer.groups] == [0.5, 0.1]


def test_hyper_parameters_are_plain_values() -> None:
    group = {
        "params": [],
        "lr": torch.tensor(0.5),
        "betas": [0.9, torch.tensor(0.75)],
        "fused": None,
        "maximize": True,
        "mode": "a",
        "param_names": ["x"],
        "strange": object(),
    }
    assert hyper_of([group]) == (
        {"lr": 0.5, "betas": (0.9, 0.75), "fused": None, "maximize": True, "mode": "a"},
    )


class Foreign(torch.optim.SGD):
    pass


def stepped(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda _: None, "'weight' is trainable, but there is no optimizer"),
        (lambda m: torch.optim.LBFGS(m.parameters()), "LBFGS: .* it may be one of .* SGD"),
        (lambda m: Foreign(m.parameters(), lr=0.1), "no server knows .*Foreign"),
        (lambda m: torch.optim.SGD([m.bias], lr=0.1), "'weight' .* in no parameter group"),
        (
            lambda m: torch.optim.SGD([*m.parameters(), nn.Parameter(torch.ones(3))]),
            r"shape \(3,\) that is not in the model: it was made for other",
        ),
        (stepped, "has stepped already"),
    ],
)
def test_what_cannot_be_shared_is_refused(make, text: str) -> None:  # noqa: ANN001
    model = nn.Linear(2, 2)
    with pytest.raises(UsageError, match=text):
        describe(model, make(model))


def test_a_dtype_that_no_optimizer_steps_on_is_refused() -> None:
    model = nn.ParameterList([torch.ones(1, dtype=torch.complex64)])
    with pytest.raises(UsageError, match=r"parameter '0': .* got 'complex64'"):
        describe(model, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_weight_that_its_own_forward_changes_is_refused(
    kind: type[nn.Module], sparse: bool
) -> None:
    model = nn.ModuleDict({"names": kind(4, 2, max_norm=1.0, sparse=sparse)})
    with pytest.raises(UsageError, match=r"'names' has max_norm=1.0.*leave it out"):
        describe(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model.requires_grad_(False)
    model["line"] = nn.Linear(2, 1)
    describe(model, torch.optim.SGD(model["line"].parameters(), lr=0.1))
