"""What a table of the user's own is: how rows combine, of which dtype, how they are cut.

`Session.table` makes them; `paceline.params.rows.values` interprets them. Embeddings are
the other tables, and have a row optimizer in the place of this.
"""

from typing import Final

import msgspec

from paceline.errors import UsageError

RULES: Final = ("add", "max", "min", "replace")
DTYPES: Final = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
)


class Combine(msgspec.Struct, frozen=True, tag="combine", kw_only=True):
    """Rows change by values that are combined with them, element by element.

    Args:
        rule: ``add``, ``max``, ``min``; or ``replace``, which needs a right to the row; or
            one of the user's own, by the name that it is registered under.
        dtype: numpy's name.
        shape: of a row; one without dimensions is a number.
        num_rows: rows 0..num_rows-1 are there from the beginning; None: any int64 id, made
            when it is first written.
        blocks: into how many slots rows are cut; 0: as the servers suggest.
        has_values: whoever shares the table first uploads what it begins with.
    """

    rule: str = "add"
    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    num_rows: int | None = None
    blocks: int = 0
    has_values: bool = False

    def __post_init__(self) -> None:
        if not self.rule.isidentifier():  # what it names, servers know
            raise UsageError(f"combine: expected the name of a rule, got {self.rule!r}")
        if self.dtype not in DTYPES:
            raise UsageError(
                f"dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}"
            )
        if self.num_rows is not None and self.num_rows < 1:
            raise UsageError(f"shape: expected 1 row or more, got {self.num_rows}")
        if self.blocks < 0 or self.blocks > (self.num_rows or self.blocks):
            raise UsageError(
                f"blocks: expected 1 or more, and no more than the {self.num_rows} rows, "
                f"got {self.blocks}"
            )

    def bounds(self, block: int, num_blocks: int) -> tuple[int, int]:
        """First row of a block, and the first behind it; for tables with ``num_rows``."""
        assert self.num_rows is not None, "rows of a keyed table lie where their ids hash"
        return (
            block * self.num_rows // num_blocks,
            (block + 1) * self.num_rows // num_blocks,
        )
