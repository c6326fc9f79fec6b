"""How what is pushed to tables leaves: with its batch, or alone.

Waits: for servers, and as a step does. The thread of the user's script calls.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, final

from paceline.data.cells import Cells
from paceline.ids import OF_NO_BATCH
from paceline.messages.data import Push
from paceline.messages.shared import StageSpec
from paceline.params.rows import Int64s
from paceline.trainer.acts import Act
from paceline.trainer.loop import (
    Cutting,
    Stage,
    Stages,
    has_batch,
    run_stage,
    step_atomic,
)
from paceline.trainer.member import Membership
from paceline.trainer.peers import Array, CollectiveCall, Operation
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.rows import TableRows
from paceline.trainer.tables.cell import Cell
from paceline.trainer.tables.locks import RowLock, Wish
from paceline.trainer.tables.rotation import Rotated, RotationLoop
from paceline.trainer.tables.rotation_plan import (
    KnownCells,
    Rotate,
    check_rotate,
    describe_rotation,
)


@final
class TableWriter:
    """Carries what is pushed to the tables of one trainer."""

    def __init__(self, membership: Membership, stages: Stages) -> None:
        """Carry for a member of the job; its loops are the script's next stages."""
        self._carrier, self._calls = membership.carrier, membership.calls
        self._membership, self._stages = membership, stages
        self._known = KnownCells()

    def has_batch(self, part: int) -> bool:
        """Whether a batch is in the user's hands that a push would belong to."""
        protocol = self._carrier.protocol
        return protocol.must_join or has_batch(protocol.parts[part])

    def is_in_loop(self) -> bool:
        """Whether a loop is open."""
        return self._calls.open_call is not None

    def step_table(self, part: int) -> None:
        """The batch in the user's hands is over for a table: what was written leaves."""
        if (table := self._carrier.numbers[part].table) and table.is_atomic:
            step_atomic(self._carrier)
        else:
            self._carrier.step(part)

    def lock(self, rows: TableRows, ids: Int64s, wish: Wish) -> RowLock:
        """A block in which rows are this trainer's alone."""
        member = (self._carrier, self._calls, self._membership.driver.locks)
        return RowLock(rows, ids, wish, member)

    def rotate(
        self,
        rows: TableRows,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        wanted: Rotate,
    ) -> Iterator[Cell]:
        """See `Table.rotate`."""
        self._calls.check_open()
        plan = self._carrier.plan(rows.part)
        check_rotate(rows, wanted, plan.spec.pace)
        num_blocks = plan.num_row_slots
        cells: list[Cells] = []

        def shape(spec: StageSpec) -> StageSpec:
            known = self._known
            cut, records = describe_rotation(spec, rows, num_blocks, wanted, known)
            cells.append(records)
            return cut

        cutting = Cutting(1, wanted.epochs, seed=wanted.seed, task_size=1)
        planned = self._stages.plan("train", dataset, cutting, shape)

        def visit(stage: Stage) -> Generator[Cell, None, None]:
            rotated = Rotated(stage, cells[0], rows, wanted.step_s)
            return RotationLoop(self._membership, rotated).run()

        return self._calls.iterate(run_stage(self._stages, planned, visit))

    def exchange(
        self, part: int, operation: Operation, arrays: Sequence[Array]
    ) -> CollectiveCall:
        """Step over the batch in the user's hands, exchanging values with trainers."""
        return self._membership.collectives.run(part, operation, arrays)

    def write_alone(self, part: int) -> None:
        """What was written leaves as a push of no batch."""
        carrier = self._carrier
        numbers = carrier.numbers[part]
        is_finite = numbers.load(carrier.plan(part), with_step=True)
        lost = carrier.run(push_alone(carrier.protocol, part)) if is_finite else None
        numbers.clear()
        if not is_finite:
            carrier.warn_once("push: values are not finite: nothing was pushed")
        elif lost is not None:
            carrier.warn_once(f"push outside of a loop dropped: {lost}")


def push_alone(protocol: TrainerProtocol, number: int) -> Act[str | None]:
    """Push to a table without a batch, once: its number in this incarnation names it.

    Returns:
        Why it has had no effect that lasts; None if it has.
    """
    part, asking = protocol.parts[number], protocol.asking
    is_tried = False

    def push() -> Act[str | None]:
        nonlocal is_tried
        if is_tried:
            return "what it was pushed to is gone, or has returned to a cut"
        is_tried = True
        part.number += 1
        message = Push(
            **asking.who(),
            part=number,
            number=part.number,
            window=OF_NO_BATCH,
            records=0,
        )
        yield from asking.ask_servers(dict.fromkeys(protocol.servers, message))
        return None

    return (yield from protocol.as_member(push))
