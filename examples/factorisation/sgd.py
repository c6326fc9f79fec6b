"""Stochastic gradient descent on a table, in four models of computation.

The step is always `descent.step_along`, on rows that are at hand. What differs is how they
come to be at hand, and what others may do with them meanwhile::

    locking      one trainer at a time has a row, and it is the newest there is
    rotation     one trainer at a time has a block of items, and a part of the users
    push-pull    rounds: all compute on the same rows, then the changes of all are added
    no-sync      changes are added when they come; nobody waits for anybody

A table holds the rows of users, then those of items: one request is for both. Only where
items travel they have a table of their own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from descent import Float32s, Int64s
from ratings import Ratings
from work import Running, Work

import paceline

Pace = paceline.Async | paceline.Sync


class Batch(NamedTuple):
    """Ratings, and which rows of a table of users and items they are about.

    Args:
        ids: of those rows, each once: users, then items.
        num_users: how many of them are users.
        ratings: with places in those two halves.
    """

    ids: Int64s
    num_users: int
    ratings: Ratings

    def halves(self, rows: Float32s) -> tuple[Float32s, Float32s]:
        """Rows of users and of items, out of the rows of all ids."""
        return rows[: self.num_users], rows[self.num_users :]


def locking(session: paceline.Session, work: Work) -> Running:
    """Model A: lock the rows of a batch, change them, write them back and unlock."""
    factors = _table(session, work, paceline.Async())

    def steps() -> Iterator[None]:
        for batch in _batches(session, work):
            with factors.lock(batch.ids) as rows:
                work.step_along(*batch.halves(rows.values), batch.ratings, session.epoch)
            yield

    return Running(steps(), partial(_all_rows, factors, work))


def rotation(session: paceline.Session, work: Work) -> Running:
    """Model B: blocks of items come by, parts of the users stay; both are one's own."""
    split = work.split
    users = session.table("users", (split.num_users, work.width), init=work.begin)
    items = session.table(
        "items", (split.num_items, work.width), init=work.begin, blocks=work.blocks
    )
    kept: dict[tuple[int, int], Batch] = {}  # of cells: ratings are the same every epoch
    mine = Mine(users, split.num_users, work.width)

    def steps() -> Iterator[None]:
        for cell in items.rotate(
            _tensors(split.train),
            by=split.train.items,
            group=split.train.users,
            epochs=work.epochs,
            seed=work.seed,
            slices=work.slices,
        ):
            key = cell.part, cell.block
            if key not in kept:
                ratings = split.train.take(cell.positions)
                ids, places = _places(ratings.users, split.num_users)
                in_block = ratings.items - cell.ids[0]
                kept[key] = Batch(ids, len(ids), Ratings(places, in_block, ratings.values))
            batch = kept[key]
            rows = mine.rows(batch.ids, cell.part, is_new=cell.is_new_part)
            before = rows.copy()
            work.step_along(rows, cell.rows, batch.ratings, session.epoch)
            users.push(batch.ids, rows - before)
            mine.keep(batch.ids, rows)
            yield

    return Running(steps(), lambda: (users.pull(), items.pull()))


class Mine:
    """Rows of users whom nobody else has: fetched once, as long as they stay."""

    def __init__(self, table: paceline.Table, num_users: int, width: int) -> None:
        """None is known."""
        self._table = table
        self._rows = np.empty((num_users, width), np.float32)
        self._part_of = np.full(num_users, -1)  # the data part they came with

    def rows(self, ids: Int64s, part: int, *, is_new: bool) -> Float32s:
        """A copy of the rows of users of a data part, which may be new here."""
        if is_new:
            self._part_of[self._part_of == part] = -1
        missing = ids[self._part_of[ids] != part]
        if len(missing):
            self._rows[missing] = self._table.pull(missing)
            self._part_of[missing] = part
        return self._rows[ids]

    def keep(self, ids: Int64s, rows: Float32s) -> None:
        """What they are from now on."""
        self._rows[ids] = rows


def push_pull(session: paceline.Session, work: Work) -> Running:
    """Model C: all trainers' changes are added as one, then all see the same rows again."""
    return _without_rights(session, work, paceline.Sync(reduce="sum"))


def no_sync(session: paceline.Session, work: Work) -> Running:
    """Model D: changes are added as they come, to rows that others are changing."""
    return _without_rights(session, work, paceline.Async())


def _without_rights(session: paceline.Session, work: Work, pace: Pace) -> Running:
    factors = _table(session, work, pace)

    def steps() -> Iterator[None]:
        for batch in _batches(session, work):
            rows = factors.pull(batch.ids)
            before = rows.copy()
            work.step_along(*batch.halves(rows), batch.ratings, session.epoch)
            factors.push(batch.ids, rows - before)
            yield

    return Running(steps(), partial(_all_rows, factors, work))


MODELS: dict[str, Callable[[paceline.Session, Work], Running]] = {
    "locking": locking,
    "rotation": rotation,
    "push-pull": push_pull,
    "no-sync": no_sync,
}


def _table(session: paceline.Session, work: Work, pace: Pace) -> paceline.Table:
    shape = (work.split.num_users + work.split.num_items, work.width)
    return session.table("factors", shape, init=work.begin, pace=pace)


def _all_rows(factors: paceline.Table, work: Work) -> tuple[Float32s, Float32s]:
    rows = factors.pull()
    return rows[: work.split.num_users], rows[work.split.num_users :]


def _batches(session: paceline.Session, work: Work) -> Iterator[Batch]:
    """This trainer's share of the ratings, with the ids that they are about."""
    for columns in session.batches(
        _tensors(work.split.train),
        batch_size=work.batch_size,
        epochs=work.epochs,
        seed=work.seed,
    ):
        ratings = Ratings(*(column.numpy() for column in columns))
        users, user_places = _places(ratings.users, work.split.num_users)
        items, item_places = _places(ratings.items, work.split.num_items)
        ids = np.concatenate([users, work.split.num_users + items])
        yield Batch(ids, len(users), Ratings(user_places, item_places, ratings.values))


def _tensors(ratings: Ratings) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.from_numpy, ratings))


def _places(ids: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Each id once, in order, and the place of each among them; ids are below ``count``."""
    place = np.zeros(count, np.int64)
    place[ids] = 1
    found = np.flatnonzero(place)
    place[found] = np.arange(len(found))
    return found, place[ids]
