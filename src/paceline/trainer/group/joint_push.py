"""Gradients of all ranks of a trainer, as one push of it.

::

    Offer   -> what each rank has, from how many records; gradients with rows come along
    Reduce  -> dense gradients add up where their share is, each times its rank's weight

Waits: for followers, which wait in calls of their own. The thread of the user's script
calls.

How values that have come to ranks of a trainer become those of all.

::

    pulled by the leader alone    its parameters go to the others
    pulled by shares              each rank's share goes to the others

Waits: for followers, which wait in calls of their own. The thread of the user's script
calls.
"""

from collections.abc import Sequence
from typing import final

import torch

from paceline.trainer.engine import Carrier
from paceline.trainer.group import wire as wire
from paceline.trainer.group.collectives import GroupTensors, Weighted
from paceline.trainer.group.dealing import weights as weights_of
from paceline.trainer.group.leader_calls import Followers
from paceline.trainer.group.offers import OwnShare, rows_of, weighted
from paceline.trainer.group.shares import Shares, shares, speakers, whole
from paceline.trainer.tensors import Gathering, Gradients


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
        self._size = 1 + len(followers.all)
        self._speaking: dict[int, dict[str, int]] = {}  # {part: as with its last push}

    def speaking(self, part: int) -> dict[str, int]:
        """Who talks to which server about a part; nothing: the leader alone."""
        if part not in self._speaking:
            self._speaking[part] = speakers(self._carrier.plan(part), self._size)
        return self._speaking[part]

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
        weights = weights_of(plan.spec.pace, records)
        dense = {i: g for i, g in own.dense.items() if i not in numbers.sparse}
        theirs = {i for offered, _ in offers.values() for i in offered.dense}
        wanted = tuple(sorted({*dense, *theirs})) if theirs else ()
        # A push is one rank's for each server, and so is what is asked behind it.
        self._speaking[part] = speakers(plan, self._size) if wanted else {}
        is_finite = True
        if wanted:
            dense, is_finite = self._reduce(part, own, wanted, weights)
        else:
            nothing = wire.Reduce(part, (), 0.0, is_shared=False)
            self._followers.tell(self._followers.all, nothing)
            dense = weighted(Gradients(dense, {}), weights[0]).dense
        with_rows = {i: g for i, g in own.dense.items() if i in numbers.sparse}
        sparse, rows, _ = weighted(Gradients(with_rows, own.rows), weights[0])
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
        return Gradients({**dense, **sparse}, rows, is_refused or not is_finite)

    def _reduce(
        self, part: int, own: Gradients, wanted: Sequence[int], weights: Sequence[float]
    ) -> tuple[dict[int, torch.Tensor], bool]:
        """Sums of the leader's share, zeros elsewhere; whether others' are finite."""
        speaking, parameters = self._speaking[part], self._carrier.numbers[part].parameters
        for index in self._followers.all:
            told = wire.Reduce(part, tuple(wanted), weights[index], bool(speaking))
            self._followers.tell([index], told)
        like = [parameters[i] for i in wanted]
        pieces = shares(self._carrier.plan(part), speaking, wanted)
        found = [own.dense.get(i) for i in wanted]
        given = Weighted(found, like, weights[0])
        sums = self._tensors.reduce(part, given, pieces)
        is_finite = True
        for index in self._followers.all if speaking else ():
            reduced = self._followers.receive(index).message
            assert isinstance(reduced, wire.Reduced)
            is_finite = is_finite and reduced.is_finite
        dense = {
            i: torch.zeros_like(parameters[i], device="cpu") if total is None else total
            for i, total in zip(wanted, sums, strict=True)
        }
        return dense, is_finite


@final
class GroupValues:
    """What the leader knows of the parameters in other ranks."""

    def __init__(
        self, followers: Followers, tensors: GroupTensors, carrier: Carrier
    ) -> None:
        """Nothing is shared yet.

        Args:
            followers: the other ranks.
            tensors: dense numbers of all.
            carrier: of the leader.
        """
        self._followers, self._tensors, self._carrier = followers, tensors, carrier
        self._versions: dict[int, list[int]] = {}  # {part: of what followers have}
        self._shared: set[int] = set()  # parts whose last values came by shares

    def pulling(self, part: int, *, by_shares: bool) -> None:
        """Values of a part are going to come."""
        if by_shares:
            self._shared.add(part)
        else:
            self._shared.discard(part)

    def refresh(self) -> None:
        """All ranks get what has come since the last time."""
        fresh = []
        for part, numbers in self._carrier.numbers.items():
            versions = [p._version for p in numbers.parameters]
            if versions and versions != self._versions.get(part):
                self._versions[part] = versions
                fresh.append(part)
        if not fresh:
            return
        by_shares = tuple(part for part in fresh if part in self._shared)
        told = wire.Refresh(tuple(fresh), by_shares)
        self._followers.tell(self._followers.all, told)
        for part in fresh:
            numbers = self._carrier.numbers[part]
            self._tensors.broadcast(part, numbers.parameters, self._held(part))
            numbers.watched.settled()

    def _held(self, part: int) -> Shares:
        parameters = self._carrier.numbers[part].parameters
        if part not in self._shared:
            return whole(parameters)
        plan = self._carrier.plan(part)
        speaking = speakers(plan, 1 + len(self._followers.all))
        return shares(plan, speaking, range(len(parameters)))
