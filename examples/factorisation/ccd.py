"""Coordinate descent (CCD) on a table: users at their best, then items, and again.

A user's row at its best depends on the rows of items alone, so all users can be worked on
at once, and then all items. An epoch is half an iteration: users in even ones, items in
odd ones. Since an epoch begins only when all of the one before is in the table, nobody
sees half of it, and no other barrier is needed.

::

    push-pull    a part of the rows is pulled with all of the other kind; changes are added
    no-sync      the same, and no trainer waits for another within an epoch
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from descent import Float32s
from plain import ByRow, by_row
from work import Running, Work

import paceline

Pace = paceline.Async | paceline.Sync


class Side(NamedTuple):
    """Users, or items: the rows that an epoch changes.

    Args:
        changing: their table.
        fixed: the other kind's.
        ratings: row by row.
    """

    changing: paceline.Table
    fixed: paceline.Table
    ratings: ByRow


def push_pull(session: paceline.Session, work: Work) -> Running:
    """Model C: in rounds, as many parts at once as there are trainers."""
    return _in_parts(session, work, paceline.Sync(reduce="sum"))


def no_sync(session: paceline.Session, work: Work) -> Running:
    """Model D: no row is in two parts, so nothing of it needs rounds."""
    return _in_parts(session, work, paceline.Async())


def _in_parts(session: paceline.Session, work: Work, pace: Pace) -> Running:
    sides, rows = _sides(session, work, pace)
    parts = torch.arange(work.parts)

    def steps() -> Iterator[None]:
        for (part,) in session.batches(
            (parts,), batch_size=1, task_size=1, epochs=2 * work.epochs, seed=work.seed
        ):
            side = sides[session.epoch % 2]
            num_rows = side.changing.shape[0]
            first, stop = (int(part + n) * num_rows // work.parts for n in (0, 1))
            ids = np.arange(first, stop)
            rows = side.changing.pull(ids)
            before = rows.copy()
            work.descend(rows, side.fixed.pull(), side.ratings.part(first, stop))
            side.changing.push(ids, rows - before)
            yield

    return Running(steps(), rows)


MODELS: dict[str, Callable[[paceline.Session, Work], Running]] = {
    "push-pull": push_pull,
    "no-sync": no_sync,
}


def _sides(
    session: paceline.Session, work: Work, pace: Pace
) -> tuple[tuple[Side, Side], Callable[[], tuple[Float32s, Float32s]]]:
    """Both kinds of rows, and how to read them all."""
    split = work.split
    users, items = (
        session.table(name, (count, work.width), init=work.begin, pace=pace)
        for name, count in (("users", split.num_users), ("items", split.num_items))
    )
    of, by, values = split.train
    sides = (
        Side(users, items, by_row(of, by, values, split.num_users)),
        Side(items, users, by_row(by, of, values, split.num_items)),
    )
    return sides, lambda: (users.pull(), items.pull())
