"""A trainer in the wind tunnel: `TrainerProtocol` with a user who computes nothing."""

from collections.abc import Generator
from functools import partial
from typing import TypeVar, final

from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.ids import COORDINATOR
from paceline.messages import Beat, Leave, Message, PartSpec, StageSpec
from paceline.simulate.world import Answer, Process, World
from paceline.trainer.asking import Act, Ask, Lost, Pause, Replies
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.verdicts import Batch, Flush, Leaving

FAULT = "crash_trainer"
CALL_TIMEOUT_S = 2.0
BEAT_S = 0.4
PATIENCE_S = 1e6
LONGEST_LEAVE_S = 2.0
T = TypeVar("T")


@final
class SimTrainer(Process):
    """One process of a trainer, running a script of one loop."""

    def __init__(
        self,
        world: World,
        role: str,
        parts: tuple[PartSpec, ...],
        stage: StageSpec,
        step_s: float,
    ) -> None:
        """Run the script: share every part, loop over the stage, leave.

        Args:
            world: where it runs.
            role: its id.
            parts: what the script shares.
            stage: what it loops over.
            step_s: how long a step takes, on average.
        """
        super().__init__(world, role)
        self.protocol = TrainerProtocol(role, self.pid, "world", patience_s=PATIENCE_S)
        self._parts, self._stage, self._step_s = parts, stage, step_s
        self._acts: list[Generator[Ask | Pause, Replies, object]] = []
        self._script = self._run()
        self.after(BEAT_S, self._beat)
        self.act(lambda: self._go_on({}))

    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """Nobody asks a trainer."""
        raise AssertionError(f"{sender} asked {message!r} of {self.role}: {answer}")

    def _run(self) -> Act[None]:
        for part in self._parts:
            yield from self.protocol.share(part)
        yield from self.protocol.begin_stage(self._stage)
        while True:
            found = yield from self.protocol.next_batch()
            if isinstance(found, Flush):
                for part in self._parts:
                    yield from self.protocol.step(part.part, flush=True)
            elif isinstance(found, Batch):
                yield from self._compute()
            else:
                break
        is_done = not isinstance(found, Leaving)
        if not is_done:
            yield from self.protocol.leave_loop()
        leave = Leave(incarnation=self.protocol.incarnation, timeline=0, is_done=is_done)
        yield from self.protocol.ask(leave)

    def _compute(self) -> Act[None]:
        random = self.world.random
        yield Pause(self._step_s * (0.5 + random.random()), "computing")
        if random.random() < 0.1:
            return  # the user accumulates: the next batch belongs to the same step
        for part in self._parts:
            yield from self.protocol.step(part.part)

    def _go_on(self, replies: Replies) -> None:
        self.may_crash(FAULT)
        if self.world.faults.happens("freeze"):
            self.frozen_until_s = self.world.now_s + self.world.faults.freeze_s()
        if self.world.faults.happens("leave"):
            self._be_told_to_leave()
        try:
            wanted = self._script.send(replies) if replies else next(self._script)
        except StopIteration:
            was_told = self.protocol.leaving is not None
            self.world.end(self, PREEMPTED_EXIT_CODE if was_told else 0)
            return
        if isinstance(wanted, Pause):
            self.after(wanted.seconds, lambda: self._go_on({}))
        else:
            self._ask_all(wanted)

    def _be_told_to_leave(self) -> None:
        self.protocol.leaving = "SIGTERM"
        self.after(self.world.random.random() * LONGEST_LEAVE_S, self._abandon)

    def _abandon(self) -> None:
        """Give everything up in the middle of an act, and end."""
        protocol = self.protocol
        leave = Leave(
            incarnation=protocol.incarnation, timeline=protocol.timeline, is_done=False
        )
        self.ask(COORDINATOR, leave, lambda _: None, CALL_TIMEOUT_S)
        self.after(0.1, lambda: self.world.end(self, PREEMPTED_EXIT_CODE))

    def _ask_all(self, wanted: Ask) -> None:
        replies: Replies = {}

        def got(role: str, reply: Message | None) -> None:
            replies[role] = reply if reply is not None else Lost("timed out")
            if len(replies) == len(wanted.calls):
                self._go_on(replies)

        for role, message in wanted.calls.items():
            self.ask(role, message, partial(got, role), CALL_TIMEOUT_S)

    def _beat(self) -> None:
        self.may_crash(FAULT)  # here it dies while it waits for an answer
        protocol = self.protocol
        if protocol.incarnation:
            beat = Beat(
                incarnation=protocol.incarnation,
                timeline=protocol.timeline,
                clock=protocol.clock,
                state="computing",
            )
            self.ask(COORDINATOR, beat, lambda _: None, CALL_TIMEOUT_S)
        self.after(BEAT_S, self._beat)
