"""Hyper-parameters of a push are such that the part's optimizer can take them."""

from typing import Any

import msgspec
import pytest

from paceline.config import Async
from paceline.errors import UsageError
from paceline.messages.shared import Hyper
from paceline.server.answers.pushes import read_push
from paceline.server.requests.layouts import PartLayout, layout_of
from tests.server.conftest import as_buffers
from tests.server.requests.test_decoding import plan_of, push

AGREED: Hyper = {"lr": 1.0, "betas": (0.9, 0.99), "nesterov": True, "name": "", "eps": None}


@pytest.fixture
def layout() -> PartLayout:
    return layout_of(plan_of(Async()), "server-0")._replace(groups=(AGREED,))


def taken(layout: PartLayout, *groups: Hyper) -> tuple[tuple[Hyper, ...], bool]:
    """What the optimizer takes of a push, and whether it is what came."""
    message, arrays = push(plan_of(Async()))
    came = msgspec.structs.replace(message, hyper=groups)
    found = read_push(layout, came, as_buffers(arrays)).hyper
    return found, found is groups


@pytest.mark.parametrize(
    "changes",
    [{"lr": 0.5}, {"lr": 2}, {"betas": (0.5, 0.5)}, {"eps": 1e-8}, {"initial_lr": 1.0}],
)
def test_others_of_the_same_kinds_are_taken(
    layout: PartLayout, changes: dict[str, Any]
) -> None:
    came = {**AGREED, **changes}
    assert taken(layout, AGREED) == ((AGREED,), True)
    assert taken(layout, came) == ((came,), True)


@pytest.mark.parametrize(
    "changes",
    [{"lr": False}, {"lr": "1.0"}, {"betas": (0.9,)}, {"betas": 0.9}, {"nesterov": 1}],
)
def test_others_of_another_kind_are_refused(
    layout: PartLayout, changes: dict[str, Any]
) -> None:
    name = next(iter(changes))
    for _ in range(2):
        with pytest.raises(UsageError, match=f"expected {name} to be like"):
            taken(layout, {**AGREED, "lr": 0.5, **changes})
        taken(layout, AGREED)


@pytest.mark.parametrize("groups", [(), (AGREED, AGREED)])
def test_each_group_has_some(layout: PartLayout, groups: tuple[Hyper, ...]) -> None:
    with pytest.raises(UsageError, match=f"of 1 parameter groups, got {len(groups)}"):
        taken(layout, *groups)


def test_equal_ones_are_those_that_were_looked_at(layout: PartLayout) -> None:
    first, _ = taken(layout, AGREED)
    again = {**AGREED, "nesterov": 1}
    found, _ = taken(layout, again)
    assert found is first
    taken(layout, {**AGREED, "lr": 0.5})
    with pytest.raises(UsageError, match="expected nesterov to be like True, got 1"):
        taken(layout, again)
