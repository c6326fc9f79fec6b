"""Whatever can come has its row in a table: nothing is looked for in vain."""

import typing
from typing import Any

import pytest

from paceline.coordinator import state
from paceline.coordinator.decisions import reports, trainer_questions
from paceline.coordinator.durable import durable
from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.messages.server import ServerAnswer
from paceline.messages.trainer import TrainerRequest


def kinds(union: Any) -> set[type]:
    return set(typing.get_args(union))


@pytest.mark.parametrize(
    ("table", "union"),
    [
        (trainer_questions._ANSWERS, TrainerRequest),
        (durable._RESTORED, AnyOutcome),
        (reports._REPORTED, ServerAnswer),
    ],
    ids=["questions", "outcomes", "answers of servers"],
)
def test_a_table_has_a_row_for_each_kind_and_no_other(
    table: dict[type, Any], union: Any
) -> None:
    assert set(table) == kinds(union)


def test_a_run_is_opened_before_any_other_event() -> None:
    assert set(state._TAKEN) == kinds(state.Event) - {state.RunOpened}
