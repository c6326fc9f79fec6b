"""Carries out what the leader says, while its follower waits for an answer.

With whatever it says comes what became of steps: gradients are spent, or go on to add up.

Waits: for the leader, without a bound; for servers, in errands. The thread of the user's
script calls.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from paceline import errors
from paceline.errors import JobFailed, PeerLost, Preempted
from paceline.messages.shared import PartPlan
from paceline.trainer.engine import Tracker
from paceline.trainer.group import wire as wire
from paceline.trainer.group.collectives import GroupTensors
from paceline.trainer.group.delegated_requests import Carrying
from paceline.trainer.group.offers import OwnShare, bring, offer
from paceline.trainer.group.shares import shares, speakers, whole
from paceline.trainer.tensors import WHOLE_STEP, GatherChoice, Gradients, ModelTensors
from paceline.trainer.verdicts import AfterStep
from paceline.transport.frames import ByteArray
from paceline.transport.streams import FrameChannel, Received


@final
class Following:
    """A follower's end of the way to its leader; ``own``: the batches of this rank."""

    def __init__(
        self,
        place: wire.GroupPlace,
        numbers: dict[int, ModelTensors],
        tracker: Tracker,
        carrying: Carrying,
    ) -> None:
        """Meet the other ranks; ``numbers`` is filled as parts are shared.

        Raises:
            PeerLost: one did not come.
        """
        self.plans: dict[int, PartPlan] = {}
        self.own = OwnShare()
        self._numbers, self._tracker = numbers, tracker
        self._is_stepping = False  # in a step of its own, or while it waits for a batch
        [end] = place.channels
        leader = "rank 0 of this trainer"
        self._channel = FrameChannel(end, wire.INSTRUCTIONS, wire.LIMITS, leader)
        self._tensors, self._size = GroupTensors(place), place.size
        self._carrying = carrying

    def close(self) -> None:
        """Hang up."""
        self._channel.close()
        self._carrying.close()
        self._tensors.close()

    def gpus(self) -> dict[int, str]:
        """Where the parameters of each part lie: `GroupTensors.gpus_of`."""
        return self._tensors.gpus_of(self._numbers)

    @contextmanager
    def stepping(self, parts: Sequence[int]) -> Iterator[dict[int, wire.Offered]]:
        """The call that is made here is a step; what these parts have for it."""
        self._is_stepping = True
        try:
            yield {part: self._offer(part, WHOLE_STEP) for part in parts}
        finally:
            self._is_stepping = False

    def send(self, message: wire.FromFollower, buffers: Sequence[Any] = ()) -> None:
        """Say something and go on.

        Raises:
            JobFailed: the leader is gone.
        """
        try:
            self._channel.send(message, buffers)
        except PeerLost as error:
            raise JobFailed(str(error)) from error

    def call(
        self, call: wire.Call, buffers: Sequence[Any] = ()
    ) -> Received[wire.FromLeader]:
        """Make a call, and `follow`."""
        self.send(call, buffers)
        return self.follow()

    def follow(self) -> Received[wire.FromLeader]:
        """Do what the leader says until it says something else.

        Raises:
            JobFailed: it is gone, or what it did has failed so.
            UsageError: the same.
            Preempted: the script must begin again.
        """
        while True:
            try:
                received = self._channel.receive()
            except PeerLost as error:
                raise JobFailed(str(error)) from error
            message = received.message
            for stepped in message.stepped:
                self._stepped(stepped)
            if isinstance(message, wire.GroupFailed):
                raise _error_of(message.error)(message.text)
            if isinstance(message, wire.GroupDone) and message.refresh is not None:
                self._refresh_all(message.refresh)
            if isinstance(message, wire.Answer | wire.Dealt):
                return received
            self._do(message, received.buffers)

    def _do(self, told: wire.Instruction, buffers: Sequence[ByteArray]) -> None:
        match told:
            case wire.GroupOffer():
                asked = GatherChoice(told.with_step, told.only_fresh)
                self.send(self._offer(told.part, asked))
            case wire.Reduce():
                self._reduce(told)
            case wire.Errand():
                part = told.message.part
                numbers, plan = self._numbers[part], self.plans[part]
                self.send(self._carrying.carry(told, buffers, numbers, plan))
            case wire.Refresh():
                self._refresh_all(told)
            case wire.BetweenGpus():
                self._tensors.go_between_gpus(told.parts, self._numbers)
            case wire.GroupForget():
                self.forget()
            case wire.GroupLoad():
                self._tracker.load(bytes(buffers[0]))

    def _own_gathering(self, part: int, asked: GatherChoice) -> GatherChoice:
        """What of that is to be gathered here: this rank may be at no step."""
        with_step = asked.with_step and self.own.has_batch(part)
        return GatherChoice(with_step, asked.only_fresh or not self._is_stepping)

    def _offer(self, part: int, asked: GatherChoice) -> wire.Offered:
        gathering = self._own_gathering(part, asked)
        return offer(self._numbers[part], self.own, part, gathering)

    def _reduce(self, asked: wire.Reduce) -> None:
        numbers, plan = self._numbers[asked.part], self.plans[asked.part]
        gathering = GatherChoice(asked.with_step, asked.only_fresh)
        found = numbers.gather(self._own_gathering(asked.part, gathering))
        is_finite = True
        if asked.dense:
            like = [numbers.parameters[index] for index in asked.dense]
            own = [found.dense.get(index) for index in asked.dense]
            speaking = speakers(plan, self._size) if asked.is_shared else {}
            pieces = shares(plan, speaking, asked.dense)
            sums = self._tensors.reduce(asked.part, own, like, asked.weight, pieces)
        if asked.is_shared:
            both = zip(asked.dense, sums, strict=True)
            dense = {index: total for index, total in both if total is not None}
            is_finite = numbers.hold(plan, Gradients(dense, {})).is_finite
        if asked.is_shared or asked.brings_rows:
            self.send(*bring(found, plan, numbers.gradients.sparse, is_finite=is_finite))

    def _refresh_all(self, told: wire.Refresh) -> None:
        for part in told.parts:
            self._refresh(part, is_shared=part in told.shared)

    def _refresh(self, part: int, *, is_shared: bool) -> None:
        numbers = self._numbers[part]
        numbers.settle()
        parameters = numbers.parameters
        held = whole(parameters)
        if is_shared:
            plan = self.plans[part]
            held = shares(plan, speakers(plan, self._size), range(len(parameters)))
        self._tensors.broadcast(part, parameters, held)
        numbers.watched.settled()

    def _stepped(self, told: AfterStep) -> None:
        numbers, has_batch = self._numbers[told.part], self.own.has_batch(told.part)
        if told.is_kept and has_batch and not self._is_stepping:
            return  # its gradients go on to add up until its own step
        if told.is_kept and has_batch:
            if told.is_refused:
                numbers.gradients.refuse()
            numbers.keep()
        if not told.is_kept:
            numbers.clear()
        if told.zero_grad or (has_batch and not told.is_kept and not self._is_stepping):
            numbers.gradients.zero()
        self.own.stepped(told.part, is_kept=told.is_kept)

    def forget(self) -> None:
        """What was computed belongs to nothing any more."""
        self.own.forget()
        for numbers in self._numbers.values():
            numbers.gradients.zero()
            numbers.clear()


def _error_of(name: str) -> type[BaseException]:
    """The leader's error, where it takes a text; else the job has failed."""
    found = getattr(errors, name, None)
    simple = (errors.UsageError, errors.JobFailed, Preempted, errors.StoreError)
    return found if found in simple else JobFailed
