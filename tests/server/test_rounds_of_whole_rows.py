"""Whole rows in a round: the first replace what is there, the others combine with them."""

import numpy as np

from paceline.server.requests.contents import PushContents, RowGradients, TableGradients
from paceline.server.slots.rounds import Contributed, sum_rows

SLOT = 3


def contributed(trainer: str, *rows: RowGradients, applies: bool = True) -> Contributed:
    found = [TableGradients(*one, (SLOT,), (0, len(one.ids))) for one in rows]
    contents = PushContents((), {}, {}, found)
    return Contributed(trainer, 1.0, frozenset({SLOT} if applies else ()), contents)


def whole(table: str, value: float) -> RowGradients:
    return RowGradients(table, np.arange(2), np.full((2, 1), value), replaces=True)


def order_of(*contributions: Contributed) -> list[tuple[str, float, bool]]:
    found = sum_rows(SLOT, contributions, are_summed=False)
    return [(one.table, float(one.gradients[0, 0]), one.replaces) for one in found]


def test_only_the_first_of_a_table_replaces() -> None:
    found = order_of(
        contributed("trainer-0", whole("a", 1.0), whole("b", 2.0)),
        contributed("trainer-1", whole("a", 3.0), whole("b", 4.0)),
    )
    assert found == [("a", 1, True), ("b", 2, True), ("a", 3, False), ("b", 4, False)]


def test_who_brings_nothing_or_was_counted_before_is_not_the_first() -> None:
    found = order_of(
        contributed("trainer-0"),
        contributed("trainer-1", whole("a", 1.0), applies=False),
        contributed("trainer-2", whole("a", 2.0)),
        contributed("trainer-3", whole("a", 3.0)),
    )
    assert found == [("a", 2, True), ("a", 3, False)]


def test_values_that_are_pushed_are_combined_with_what_is_there() -> None:
    pushed = RowGradients("a", np.arange(2), np.ones((2, 1)))
    assert order_of(contributed("trainer-0", pushed)) == [("a", 1, False)]
