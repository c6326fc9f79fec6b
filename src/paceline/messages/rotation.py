"""How a stage of rotation is cut: data parts times blocks of a table.

::

                block 0   block 1   block 2   block 3
    data part 0    0         1         2         3        a cell is a task:
    data part 1    4         5         6         7        part * blocks + block

A lease on a cell is the right to its data part and to its block, so whatever accounts for
tasks accounts for cells. A cell's batches are its records, cut by the stage's
``batch_size``; a cell without records has one batch, of none, so that the block is seen to
have been there.

Pure.
"""

import msgspec


class RotationSpec(msgspec.Struct, frozen=True):
    """The cells of a stage.

    ``table`` is the part whose rows rotate. ``sizes`` are the records of every cell, in the
    order of their tasks; ``slices`` is how many cells a trainer may hold, one of which it
    computes on.
    """

    table: int
    parts: int
    blocks: int
    sizes: tuple[int, ...]
    slices: int

    def __repr__(self) -> str:
        """Short: an error that names two stages need not list their cells."""
        return (
            f"RotationSpec(table={self.table}, {self.parts} data parts x {self.blocks} "
            f"blocks, slices={self.slices})"
        )

    def num_cells(self) -> int:
        """Cells of one round."""
        return self.parts * self.blocks

    def cell_of(self, task: int) -> tuple[int, int]:
        """The data part and the block of a task."""
        return divmod(task, self.blocks)

    def task_of(self, part: int, block: int) -> int:
        """The task that a cell is."""
        return part * self.blocks + block
