"""Coordinate descent (CCD) on a table: users at their best, then items, and again.

A user's row at its best depends on the rows of items alone, so all users can be worked on
at once, and then all items. An epoch is half an iteration: users in even ones, items in
odd ones. Since an epoch begins only when all of the one before is in the table, nobody
sees half of it, and no other barrier is needed.

::

    push-pull    some rows are pulled, with all of the other kind; changes are added
    no-sync      the same, and no trainer waits for another within an epoch
    rotation     blocks of items come by, parts of the users stay: neither has all ratings
                 of the other, so sums of them are added up (`absorbing`); who comes first
                 in the next epoch settles them
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import plain
import torch
from absorbing import absorbing_width
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
    split = work.split
    of, by, values = split.train
    users, items = (
        session.table(name, (count, work.width), init=work.begin, pace=pace)
        for name, count in (("users", split.num_users), ("items", split.num_items))
    )
    sides = (
        Side(users, items, by_row(of, by, values, split.num_users)),
        Side(items, users, by_row(by, of, values, split.num_items)),
    )

    def steps() -> Iterator[None]:
        for (part,) in session.batches(
            (torch.arange(work.blocks),), batch_size=1, epochs=work.epochs, seed=work.seed
        ):
            side = sides[session.epoch % 2]
            ends = np.arange(work.blocks + 1) * len(side.ratings.starts[1:]) // work.blocks
            first, stop = ends[int(part)], ends[int(part) + 1]
            ids = np.arange(first, stop)
            rows = side.changing.pull(ids)
            before = rows.copy()
            work.descend(rows, side.fixed.pull(), side.ratings.part(first, stop))
            side.changing.push(ids, rows - before)
            yield

    return Running(steps(), lambda: (users.pull(), items.pull()))


def rotation(session: paceline.Session, work: Work) -> Running:
    """Model B: each block of items meets each part of the users, one at a time."""
    split, width = work.split, absorbing_width(work.width)
    begin = plain.begun(split, work.settings, work.seed)
    users, items = (
        session.table(
            name,
            (len(rows), width),
            init=np.pad(rows, ((0, 0), (0, width - work.width))),
            blocks=work.blocks,
        )
        for name, rows in zip(("users", "items"), begin, strict=True)
    )

    def steps() -> Iterator[None]:
        for cell in items.rotate(
            tuple(map(torch.from_numpy, split.train)),
            by=split.train.items,
            group=split.train.users,
            epochs=work.epochs,
            seed=work.seed,
            slices=work.slices,
        ):
            ratings = split.train.take(cell.positions)
            ids, places = np.unique(ratings.users, return_inverse=True)
            rows, in_block = users.pull(ids), ratings.items - cell.ids[0]
            before = rows.copy()
            if session.epoch % 2 == 0:
                work.settle(cell.rows)
                work.absorb(rows, cell.rows, places, in_block, ratings.values)
            else:
                work.settle(rows)
                work.absorb(cell.rows, rows, in_block, places, ratings.values)
            users.push(ids, rows - before)
            yield

    def settled() -> tuple[Float32s, Float32s]:
        found = users.pull(), items.pull()
        for rows in found:
            work.settle(rows)
        return found[0][:, : work.width], found[1][:, : work.width]

    return Running(steps(), settled)


MODELS: dict[str, Callable[[paceline.Session, Work], Running]] = {
    "push-pull": push_pull,
    "no-sync": no_sync,
    "rotation": rotation,
}
