"""Gradients of all ranks of a trainer, as one push of it, and values for all of them.

::

    Step    tells what each rank has, from how many records; who is at none is asked: Offer
    Reduce  dense gradients add up where their share is, each times its rank's weight
    Reduced gradients with rows

    pulled by the leader alone    its parameters go to the others
    pulled by shares              each rank's share goes to the others

Waits: for followers, which wait in calls of their own. The thread of the user's script
calls.
"""

from collections.abc import Sequence
from typing import final

import torch

from paceline.trainer.engine import TrainerEngine
from paceline.trainer.group import wire as wire
from paceline.trainer.group.collectives import GroupTensors
from paceline.trainer.group.leader_calls import Followers
from paceline.trainer.group.offers import OwnShare, rows_of, weighted
from paceline.trainer.group.offers import weights as weights_of
from paceline.trainer.group.shares import Shares, shares, speakers, whole
from paceline.trainer.tensors import WHOLE_STEP, GatherChoice, Gradients


@final
class JointGradients:
    """What the leader's pushes carry."""

    def __init__(
        self,
        followers: Followers,
        tensors: GroupTensors,
        carrier: TrainerEngine,
        own: OwnShare,
    ) -> None:
        self._followers, self._tensors = followers, tensors
        self._carrier, self._own = carrier, own
        self._size = 1 + len(followers.all)
        self._speaking: dict[int, dict[str, int]] = {}  # {part: as with its last push}

    def speaking(self, part: int) -> dict[str, int]:
        """Who talks to which server about a part; nothing: the leader alone."""
        if part not in self._speaking:
            self._speaking[part] = speakers(self._carrier.plan(part), self._size)
        return self._speaking[part]

    def join(self, part: int, own: Gradients, gathering: GatherChoice) -> Gradients:
        """This rank's gradients with those of all others; they all wait in a call."""
        numbers, plan = self._carrier.numbers[part], self._carrier.plan(part)
        offers = self._offers(part, gathering)
        records = [self._own.records(part), *(o.records for o in offers.values())]
        weights = weights_of(plan.spec.pace, records)
        dense = {i: g for i, g in own.dense.items() if i not in numbers.gradients.sparse}
        theirs = {i for offered in offers.values() for i in offered.dense}
        wanted = tuple(sorted({*dense, *theirs})) if theirs else ()
        # A push is one rank's for each server, and so is what is asked behind it.
        self._speaking[part] = speakers(plan, self._size) if wanted else {}
        is_shared = bool(self._speaking[part])
        for index, offered in offers.items():
            has_rows, weight = offered.has_rows, weights[index]
            told = wire.Reduce(part, *gathering, wanted, weight, is_shared, has_rows)
            self._followers.tell([index], told)
        if wanted:
            dense = self._reduce(part, own, wanted, weights[0])
        else:
            dense = weighted(Gradients(dense, {}), weights[0]).dense
        with_rows = {i: g for i, g in own.dense.items() if i in numbers.gradients.sparse}
        sparse, rows, _ = weighted(Gradients(with_rows, own.rows), weights[0])
        is_refused = any(offered.is_refused for offered in offers.values())
        for index, offered in offers.items():
            if not (is_shared or offered.has_rows):
                continue
            brought, buffers = self._followers.receive(index)
            assert isinstance(brought, wire.Reduced)
            is_refused = is_refused or not brought.is_finite
            more = weighted(rows_of(brought, buffers, numbers, plan), weights[index])
            for i, gradient in more.dense.items():
                sparse[i] = sparse[i] + gradient if i in sparse else gradient
            for table, recorded in more.rows.items():
                rows.setdefault(table, []).extend(recorded)
        return Gradients({**dense, **sparse}, rows, is_refused)

    def _offers(self, part: int, gathering: GatherChoice) -> dict[int, wire.Offered]:
        """{rank: what it has}; who has said it with a step of this kind is not asked."""
        calls = self._followers.calls
        steps = {index: calls[index].message for index in self._followers.all}
        offers = {
            index: call.offered[part]
            for index, call in steps.items()
            if isinstance(call, wire.Step) and gathering == WHOLE_STEP
        }
        asked = [index for index in steps if index not in offers]
        self._followers.tell(asked, wire.GroupOffer(part, *gathering))
        for index in asked:
            offered = self._followers.receive(index).message
            assert isinstance(offered, wire.Offered)
            offers[index] = offered
        return dict(sorted(offers.items()))

    def _reduce(
        self, part: int, own: Gradients, wanted: Sequence[int], weight: float
    ) -> dict[int, torch.Tensor]:
        """Sums of the leader's share, zeros elsewhere."""
        parameters = self._carrier.numbers[part].parameters
        like = [parameters[i] for i in wanted]
        pieces = shares(self._carrier.plan(part), self._speaking[part], wanted)
        found = [own.dense.get(i) for i in wanted]
        sums = self._tensors.reduce(part, found, like, weight, pieces)
        return {
            i: torch.zeros_like(parameters[i], device="cpu") if total is None else total
            for i, total in zip(wanted, sums, strict=True)
        }


@final
class GroupValues:
    """What the leader knows of the parameters in other ranks."""

    def __init__(
        self, followers: Followers, tensors: GroupTensors, carrier: TrainerEngine
    ) -> None:
        self._followers, self._tensors, self._carrier = followers, tensors, carrier
        self._versions: dict[int, list[int]] = {}  # {part: of what followers have}
        self._shared: set[int] = set()  # parts whose last values came by shares

    def pulling(self, part: int, *, by_shares: bool) -> None:
        """Values of a part are going to come."""
        if by_shares:
            self._shared.add(part)
        else:
            self._shared.discard(part)

    def fresh(self) -> wire.Refresh | None:
        """What has come since the last time: `share` is to follow; None if nothing has."""
        fresh = []
        for part, numbers in self._carrier.numbers.items():
            versions = [p._version for p in numbers.parameters]
            if versions and versions != self._versions.get(part):
                self._versions[part] = versions
                fresh.append(part)
        by_shares = tuple(part for part in fresh if part in self._shared)
        return wire.Refresh(tuple(fresh), by_shares) if fresh else None

    def share(self, told: wire.Refresh) -> None:
        """All ranks get it; they have been told that it comes."""
        for part in told.parts:
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
