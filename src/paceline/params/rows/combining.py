"""How values are combined with rows of a table of the user's own, and with each other.

::

    add      row + value      whole numbers wrap around, as numpy's do
    max min  the greater, the lesser
    replace  the value        of equal ids, the last
    yours    registered       `combine_rule`, in a plugin

Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch

from paceline.errors import RuleFailed, UsageError
from paceline.params.rows.compiled import Int64s
from paceline.table_specs import RULES

Array = np.ndarray[Any, np.dtype[Any]]

Rule = Callable[[Array, Array], Array]

_RULES: Final[Mapping[str, np.ufunc]] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
}
_own: Final[dict[str, Rule]] = {}  # {name: as registered in this process}


def combine_rule(name: str) -> Callable[[Rule], Rule]:
    """Register a rule of your own for `Session.table`, in a module that is a plugin.

    The rule gets rows (n, dim) and as many values of the table's dtype, and returns what
    the rows are from then on; neither may be changed. It is asked for every value of a row,
    in whichever order trainers push: what comes out must not depend on that order.

    Raises:
        UsageError: the name is no identifier, or one of paceline's own.
    """
    if not name.isidentifier() or name in RULES:
        raise UsageError(
            f"combine_rule: expected an identifier that is none of {', '.join(RULES)}, got "
            f"{name!r}"
        )

    def register(rule: Rule) -> Rule:
        _own[name] = rule
        return rule

    return register


def modules_of_rules() -> tuple[str, ...]:
    """Modules that have registered rules of their own in this process, by name."""
    return tuple(sorted({rule.__module__ for rule in _own.values()}))


def require_rule(name: str) -> None:
    """Refuse a rule that this process does not know.

    Raises:
        UsageError: with what is known, and how to make it known.
    """
    known = (*RULES, *sorted(_own))
    if name not in known:
        raise UsageError(
            f"combine: expected one of {', '.join(known)}, got {name!r}; a rule of your "
            f"own is registered by a plugin (paceline run --plugin)"
        )


def combine_rows(rule: str, target: Array, rows: Int64s, values: Array) -> None:
    """Combine ``values`` (n, dim) with ``target[rows]``; ``rows`` (n,) are distinct.

    Raises:
        RuleFailed: a rule of the user's own did; no row has changed.
    """
    span = span_of(rows)
    if span is not None and rule in {"replace", *_RULES}:
        there = target[span]
        if rule == "replace":
            there[:] = values
        else:
            _RULES[rule](there, values, out=there)
    elif rule == "replace":
        target[rows] = values
    elif rule in _RULES:
        target[rows] = _RULES[rule](target[rows], values)
    else:
        target[rows] = _own_rows(rule, target[rows], values)


def span_of(rows: Int64s) -> slice | None:
    """The same rows as a slice, if each follows the one before; else None."""
    if not len(rows) or rows[-1] - rows[0] != len(rows) - 1:
        return None
    if not bool((rows[1:] > rows[:-1]).all()):
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1)


def combine_equal(rule: str, inverse: Int64s, values: Array, num_unique: int) -> Array:
    """Combine the values of equal ids with each other, in their order.

    ``inverse`` (n,) says which of the distinct ids each of ``values`` (n, dim) is for.

    Returns:
        (num_unique, dim), of the same dtype; the values themselves where nothing changes.

    Raises:
        RuleFailed: a rule of the user's own did.
    """
    if num_unique == len(values):
        if bool((inverse[1:] > inverse[:-1]).all()):
            return values
        found = np.empty_like(values)
        found[inverse] = values
        return found
    if rule not in _RULES:
        found = np.empty((num_unique, *values.shape[1:]), values.dtype)
        is_seen = np.zeros(num_unique, np.bool_)
        for number, at in enumerate(inverse):  # numpy leaves the order open
            value = values[number : number + 1]
            if is_seen[at] and rule != "replace":
                value = _own_rows(rule, found[at : at + 1], value, int(at))
            found[at], is_seen[at] = value[0], True
        return found
    if rule == "add":  # several times as fast as numpy's, one after the other as well
        total = torch.zeros((num_unique, *values.shape[1:]), dtype=_torch_dtype(values))
        total.index_add_(0, torch.from_numpy(inverse), torch.from_numpy(values))
        return total.numpy()
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    found = _RULES[rule].reduceat(values[order], starts, axis=0, dtype=values.dtype)
    return np.ascontiguousarray(found)


def rule_failed(table: str, ids: Int64s, error: RuleFailed) -> RuleFailed:
    """The same, with the table, and the one of ``ids`` that the rule has failed for."""
    here = ids if error.at is None else ids[error.at : error.at + 1]
    named = f"id {here[0]}" if len(here) == 1 else f"{len(here)} ids together"
    return RuleFailed(f"table {table!r}, {named}: {error}")


def _own_rows(rule: str, rows: Array, values: Array, first: int = 0) -> Array:
    """What a rule makes of rows; ``first`` is the number of the first of them."""
    try:
        return _asked(rule, rows, values)
    except Exception as error:
        text = f"combine rule {rule!r} raised {type(error).__name__}: {error}"
        if isinstance(error, UsageError):
            text = str(error)
        at = _first_that_fails(rule, rows, values)
        raise RuleFailed(text, None if at is None else first + at) from error


def _asked(rule: str, rows: Array, values: Array) -> Array:
    found = np.asarray(_own[rule](rows, values))
    if found.shape != rows.shape:
        raise UsageError(
            f"combine rule {rule!r}: expected rows {rows.shape}, got {found.shape}"
        )
    return found.astype(rows.dtype, copy=False)


def _first_that_fails(rule: str, rows: Array, values: Array) -> int | None:
    for at in range(len(rows)):
        try:
            _asked(rule, rows[at : at + 1], values[at : at + 1])
        except Exception:  # noqa: BLE001  (whatever a rule of the user's raises)
            return at
    return None


def unique_inverse(ids: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ids (m,), ascending, and for each of ``ids`` its index among them."""
    if len(ids) < 2 or bool((ids[1:] > ids[:-1]).all()):
        return ids, np.arange(len(ids))
    return np.unique(ids, return_inverse=True)


def _torch_dtype(values: Array) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, values.dtype.name)
    return dtype
