"""Gradients of all ranks of a trainer, as one push of it.

::

    Offer   -> what each rank has, from how many records; gradients with rows come along
    Reduce  -> dense gradients add up at the leader, each times its rank's weight

Waits: for followers, which wait in calls of their own. The thread of the user's script
calls.
"""

from typing import final

from paceline.trainer import group_wire as wire
from paceline.trainer.carrier import Carrier
from paceline.trainer.gathered import Gathering, Gradients
from paceline.trainer.group_dealing import shares
from paceline.trainer.group_followers import Followers
from paceline.trainer.group_numbers import OwnShare, rows_of, weighted
from paceline.trainer.group_tensors import GroupTensors


@final
class JointGradients:
    """What the leader's pushes carry."""

    def __init__(
        self, followers: Followers, tensors: GroupTensors, carrier: Carrier, own: OwnShare
    ) -> None:
        """Nothing is pushed yet.

        Args:
            followers: the other ranks.
            tensors: dense numbers of all.
            carrier: of the leader.
            own: the leader's own batches.
        """
        self._followers, self._tensors = followers, tensors
        self._carrier, self._own = carrier, own

    def join(self, part: int, own: Gradients, gathering: Gathering) -> Gradients:
        """This rank's gradients with those of all others; they all wait in a call."""
        numbers, plan = self._carrier.numbers[part], self._carrier.plan(part)
        self._followers.tell(self._followers.all, wire.Offer(part, *gathering))
        offers = {}
        for index in self._followers.all:
            message, buffers = self._followers.receive(index)
            assert isinstance(message, wire.Offered)
            offers[index] = (message, rows_of(message, buffers, numbers, plan))
        records = [self._own.records(part), *(o.records for o, _ in offers.values())]
        weights = shares(plan.spec.pace, records)
        mine = weighted(own, weights[0])
        dense = {i: g for i, g in mine.dense.items() if i not in numbers.sparse}
        theirs = {i for offered, _ in offers.values() for i in offered.dense}
        wanted = tuple(sorted({*dense, *theirs})) if theirs else ()
        for index in self._followers.all:
            self._followers.tell([index], wire.Reduce(part, wanted, weights[index]))
        if wanted:
            like = [numbers.parameters[i] for i in wanted]
            sums = self._tensors.reduce(
                [own.dense.get(i) for i in wanted], like, weights[0]
            )
            dense = dict(zip(wanted, sums, strict=True))
        sparse = {i: g for i, g in mine.dense.items() if i in numbers.sparse}
        rows = mine.rows
        for index, (_, found) in offers.items():
            more = weighted(
                Gradients(found.sparse, {t: [g] for t, g in found.tables.items()}),
                weights[index],
            )
            for i, gradient in more.dense.items():
                sparse[i] = sparse[i] + gradient if i in sparse else gradient
            for table, recorded in more.rows.items():
                rows.setdefault(table, []).extend(recorded)
        is_refused = any(offered.is_refused for offered, _ in offers.values())
        return Gradients({**dense, **sparse}, rows, is_refused)
