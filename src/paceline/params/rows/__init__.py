"""Sparse parameters: tables of rows by int64 id, made when they are first touched.

::

    distinct     ids -> unique ids, by slot          the trainer's side of a push
                 unique ids, and sums                the server's
    id_map       id -> row index                     open addressing
    initial      a new row's values                  a function of (seed, table, id)
    optimizers   what a row keeps besides its values, and one step
    row_store    a table's rows in the slots that take turns as one
    table        one table in one slot
    following    rows that follow the optimizer of a ``torch.optim``
    combining, values   tables of the user's own
    snapshot     the rows of a table as of one moment
    compiled/    the loops of all of them

Only this room imports numba.

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.params.rows.combining import (
        Array,
        combine_equal,
        combine_rows,
        combine_rule,
        modules_of_rules,
        require_rule,
        rule_failed,
        unique_inverse,
    )
    from paceline.params.rows.compiled import Float32s, Int64s, load_loops
    from paceline.params.rows.distinct import (
        Distinct,
        distinct_ids,
        sum_duplicates,
        unique_ids,
    )
    from paceline.params.rows.following import RowStep, twin_by_now, twin_of
    from paceline.params.rows.id_map import IdMap
    from paceline.params.rows.initial import table_key
    from paceline.params.rows.optimizers import counts_table_steps
    from paceline.params.rows.row_store import RowStore
    from paceline.params.rows.snapshot import RowSnapshot
    from paceline.params.rows.table import RowTable
    from paceline.params.rows.values import ValueTable

_LAZY = {  # {name: the module that defines it}
    "Array": "paceline.params.rows.combining",
    "Distinct": "paceline.params.rows.distinct",
    "Float32s": "paceline.params.rows.compiled",
    "IdMap": "paceline.params.rows.id_map",
    "Int64s": "paceline.params.rows.compiled",
    "RowSnapshot": "paceline.params.rows.snapshot",
    "RowStep": "paceline.params.rows.following",
    "RowStore": "paceline.params.rows.row_store",
    "RowTable": "paceline.params.rows.table",
    "ValueTable": "paceline.params.rows.values",
    "combine_equal": "paceline.params.rows.combining",
    "combine_rows": "paceline.params.rows.combining",
    "combine_rule": "paceline.params.rows.combining",
    "counts_table_steps": "paceline.params.rows.optimizers",
    "distinct_ids": "paceline.params.rows.distinct",
    "load_loops": "paceline.params.rows.compiled",
    "modules_of_rules": "paceline.params.rows.combining",
    "require_rule": "paceline.params.rows.combining",
    "rule_failed": "paceline.params.rows.combining",
    "sum_duplicates": "paceline.params.rows.distinct",
    "table_key": "paceline.params.rows.initial",
    "twin_by_now": "paceline.params.rows.following",
    "twin_of": "paceline.params.rows.following",
    "unique_ids": "paceline.params.rows.distinct",
    "unique_inverse": "paceline.params.rows.combining",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
