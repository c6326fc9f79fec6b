"""A trainer in the wind tunnel: `TrainerProtocol` with a user who computes nothing."""

from functools import partial
from typing import NamedTuple, final

import msgspec

from paceline.errors import PREEMPTED_EXIT_CODE, Refused
from paceline.forecast.driver import ActDriver
from paceline.ids import COORDINATOR
from paceline.messages.data import KeepTracked, Pull, Pulled, Push
from paceline.messages.peers import AskValues, Values
from paceline.messages.shared import Lease, Message, PartSpec, StageSpec
from paceline.messages.trainer import Beat, Leave, Tick
from paceline.pace.policy import takes_turns
from paceline.trainer.acts import Act, Ask, Collect, Lost, Pause, Replies
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.verdicts import Batch, Flush, Leaving, RefusedStep, Task
from tests.simulate import checks
from tests.simulate.checks import check_told, encode_counts
from tests.simulate.clocks import ClockHistory, Holder
from tests.simulate.coordinator import SimCoordinator
from tests.simulate.exchanges import SWEEP_S, ExchangeHistory, SimDoor
from tests.simulate.world import Answer, SimProcess, World

FAULT = "crash_trainer"
CALL_TIMEOUT_S = 2.0
BEAT_S = 0.4
PATIENCE_S = 1e6
LONGEST_LEAVE_S = 2.0
WILD = 0.2  # of all pushes, where norms are looked at

States = dict[int, dict[int, int]]  # {number of a kept state: {part: steps}}


class TrainerHistory(NamedTuple):
    """What trainers have done, and are remembered for, whoever dies.

    ``states`` they have kept of their tracked objects; ``values`` their scripts were told
    that evaluations came to; ``clocks``: who was where, and read what.
    """

    states: States
    values: checks.Values
    clocks: ClockHistory
    exchanges: ExchangeHistory | None = None  # where values travel between trainers


@final
class SimTrainer(SimProcess, ActDriver):
    """One process of a trainer, running a script of one loop."""

    def __init__(
        self,
        world: World,
        role: str,
        parts: tuple[PartSpec, ...],
        stages: tuple[StageSpec, ...],
        step_s: float,
        history: TrainerHistory,
    ) -> None:
        """Run the script: share every part, loop over the first stage, evaluate, leave.

        Args:
            world: where it runs.
            role: its id.
            parts: what the script shares.
            stages: what it loops over, and what it evaluates.
            step_s: how long a step takes, on average.
            history: of the run.
        """
        SimProcess.__init__(self, world, role)
        self.protocol = TrainerProtocol(role, self.pid, "world", patience_s=PATIENCE_S)
        ActDriver.__init__(self, self._run(), self.protocol.asking)
        self._parts, self._stages, self._step_s = parts, stages, step_s
        self._states, self._values, self._clocks, exchanges = history
        self._door: SimDoor | None = None
        if exchanges is not None:
            self._door = SimDoor(world, self.protocol, exchanges)
            self.after(SWEEP_S, self._sweep)
        self._steps = dict.fromkeys((part.part for part in parts), 0)  # what is tracked
        self._loads = 0
        self._entered: Lease | None = None  # the lease that it was seen to enter with
        self.after(BEAT_S, self._beat)
        self.act(self.resume, None)

    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """Nobody but another trainer asks one."""
        assert self._door is not None, f"{sender} asked {message!r} of {self.role}"
        assert isinstance(message, AskValues)
        self._door.received(sender, message, answer)

    def _sweep(self) -> None:
        assert self._door is not None
        self._door.sweep()
        self.after(SWEEP_S, self._sweep)

    def _run(self) -> Act[None]:
        for part in self._parts:
            yield from self.protocol.share(part)
        is_done = True
        for stage in self._stages:
            run = self._train if stage.is_training else self._evaluate
            is_done = yield from run(stage)
            if not is_done:
                break
        leave = Leave(
            incarnation=self.protocol.asking.incarnation, timeline=0, is_done=is_done
        )
        yield from self.protocol.ask(leave)

    def _train(self, stage: StageSpec) -> Act[bool]:
        """The loop; false if the trainer was told to leave."""
        yield from self.protocol.begin_stage(stage)
        while True:
            found = yield from self.protocol.next_batch()
            self._load()
            if isinstance(found, Flush):
                for part in self.protocol.stepping.turns.in_order(self.protocol.parts):
                    yield from self._step(part, flush=True)
            elif isinstance(found, Batch):
                self._begin_step()
                yield from self._compute()
            else:
                break
        if isinstance(found, Leaving):
            yield from self.protocol.leave_loop()
        return not isinstance(found, Leaving)

    def _evaluate(self, stage: StageSpec) -> Act[bool]:
        """An evaluation; false if the trainer was told to leave."""
        acts = self.protocol.evaluation
        yield from self.protocol.begin_stage(stage)
        while True:
            found = yield from acts.next_task(stage)
            self._load()
            if not isinstance(found, Task):
                break
            count = yield from self._evaluate_task(stage, found.key.task)
            if acts.is_void:
                continue
            yield from acts.finish(encode_counts({found.key.task: count}))
        if isinstance(found, Leaving):
            yield from acts.hand_back()
            return False
        results = yield from acts.results(stage.stage)
        if results.value is None:
            value = b" ".join(state for _, state in sorted(results.states.items()))
            results = yield from acts.keep(stage.stage, value)
        assert results.value is not None
        check_told(self._values, stage.stage, results.value)
        return True

    def _evaluate_task(self, stage: StageSpec, task: int) -> Act[int]:
        for _ in range(stage.num_batches(task)):
            yield Pause(self._step_s * self.world.random.random())
            self.protocol.evaluation.evaluated += 1
        return stage.num_batches(task)

    def _compute(self) -> Act[None]:
        random = self.world.random
        yield Pause(self._step_s * (0.5 + random.random()))
        if self._door is None and random.random() < 0.1:
            return  # the user accumulates: the next batch belongs to the same step
        for part in self.protocol.stepping.turns.in_order(self.protocol.parts):
            yield from self._step(part)

    def _step(self, part: int, *, flush: bool = False) -> Act[None]:
        if takes_turns(self.protocol.parts[part].spec.pace):
            yield from self.protocol.land(part, at_once=flush)
        was_open = self.protocol.parts[part].window.is_open()
        timeline = self.protocol.asking.timeline
        if self._door is not None and not flush:
            self._door.begin(part)
        load = partial(self._look_at_norm, self.protocol.parts[part])
        stepped = yield from self.protocol.step(part, flush=flush, load=load)
        if self._door is not None:
            self._door.end(part, timeline, is_pushed=stepped.verdict == "pushed")
        if stepped.verdict == "dropped" or (stepped.verdict == "pushed" and was_open):
            self._steps[part] += 1  # the user's loop does not look what became of it
        self._load()

    def _look_at_norm(self, part: SharedPart) -> None:
        """Some gradients are wild; whoever trains their batches again finds them tame."""
        guards = part.spec.pace.guards
        if guards is not None and guards.norm is not None and part.fate != "effect":
            is_wild = self.world.random.random() < WILD
            part.refused = RefusedStep("wild", 9.0) if is_wild else None

    def _load(self) -> None:
        """What was loaded is what the tracked objects are."""
        tracked = self.protocol.tracked
        if tracked.loads > self._loads and tracked.is_known:
            self._loads = tracked.loads
            kept = self._states[tracked.number] if tracked.number else {}
            self._steps = {part: kept.get(part, 0) for part in self._steps}

    def _with_numbers(self, message: Message) -> Message:
        """What the carrier attaches; clocks are noted as they are told."""
        if isinstance(message, Tick) and message.clock is not None:
            part = self.protocol.parts[message.part]
            where = (message.timeline, message.incarnation)
            self._clocks.ticked(*where, message.clock.steps)
            if self._is_member():
                clock = self.protocol.marching._base + part.finished
                self._clocks.pushed(*where, message.part, message.number, clock)
        if isinstance(message, KeepTracked):
            self._states[message.number] = dict(self._steps)
        if isinstance(message, Push) and self._stages[0].tracked:
            steps = self._steps[message.part]
            return msgspec.structs.replace(message, hyper=({"steps": steps},))
        return message

    def resume(self, replies: Replies | None) -> None:
        """Do one thing more, unless it dies."""
        self.may_crash(FAULT)
        if self.world.faults.happens("freeze"):
            self.frozen_until_s = self.world.now_s + self.world.faults.freeze_s()
        if self.world.faults.happens("leave"):
            self._be_told_to_leave()
        self.protocol.asking.now_s = self.world.now_s
        try:
            told = self.go_on(replies)
        except StopIteration:
            told_to = self.protocol.leaving or self.protocol.must_begin_again
            self.world.end(self, 0 if told_to is None else PREEMPTED_EXIT_CODE)
            return
        except Refused:  # a process before it, which has ended, was let in after it
            self.world.end(self, 1)
            return
        # What is here already it takes at once; behind a post it may freeze first.
        if told:
            self.resume(told)
        elif told is not None:
            self.after(0.0, self.resume, told)

    def carry(self, number: int, role: str, message: Message) -> None:
        """Send a question through the world."""
        got = partial(self._got, number, role, message)
        carried = self._with_numbers(message)
        self.ask(role, carried, got, CALL_TIMEOUT_S, in_order=role != COORDINATOR)

    def waits(self, wanted: Ask | Collect | Pause) -> None:
        """Only a pause ends by itself."""
        if isinstance(wanted, Pause):
            self.after(wanted.seconds, self.resume, {})

    def _be_told_to_leave(self) -> None:
        self.protocol.leaving = "SIGTERM"
        self.after(self.world.random.random() * LONGEST_LEAVE_S, self._abandon)

    def _abandon(self) -> None:
        """Give everything up in the middle of an act, and end."""
        protocol = self.protocol
        leave = Leave(**protocol.asking.who(), is_done=False)
        self.ask(COORDINATOR, leave, lambda _: None, CALL_TIMEOUT_S)
        self.after(0.1, self.world.end, self, PREEMPTED_EXIT_CODE)

    def _got(self, number: int, role: str, asked: Message, reply: Message | None) -> None:
        # What an incarnation before has asked for is answered to nobody.
        if (
            isinstance(asked, Pull)
            and isinstance(reply, Pulled)
            and asked.incarnation == self.protocol.asking.incarnation
        ):
            self._clocks.read(self.protocol.asking.incarnation, asked.part, role, reply)
        if isinstance(asked, AskValues) and isinstance(reply, Values):
            assert self._door is not None
            self._door.landed(role, asked, reply)
        self.got(number, role, Lost("timed out") if reply is None else reply)

    def _is_member(self) -> bool:
        """Whether there is a coordinator, and it does not take this one for dead."""
        coordinator = self.world.processes.get(COORDINATOR)
        if not isinstance(coordinator, SimCoordinator):
            return False
        return self.protocol.asking.incarnation in coordinator.state.durable.incarnations()

    def _holders(self) -> list[Holder]:
        """Who holds a lease, if there is a coordinator to know it, on this timeline."""
        coordinator = self.world.processes.get(COORDINATOR)
        if not isinstance(coordinator, SimCoordinator):
            return []
        durable = coordinator.state.durable
        if durable.timeline != self.protocol.asking.timeline:
            return []
        pending = durable.queue.pending.values()
        return [Holder(record.incarnation, record.lease.clock) for record in pending]

    def _begin_step(self) -> None:
        protocol = self.protocol
        clock = protocol.marching.clock
        if clock is None:
            return
        bounded = [(n, part) for n, part in protocol.parts.items() if part.rules.is_bounded]
        staleness = {n: part.staleness(clock) for n, part in bounded}
        asking, holders = protocol.asking, self._holders()
        who = asking.timeline, asking.incarnation
        lease = protocol.marching.entered
        if lease is not None and lease is not self._entered:
            self._entered = lease
            self._clocks.entered(*who, lease, holders)
        if self._is_member():  # what the dead compute is dropped
            self._clocks.began(*who, clock, staleness, holders)

    def _beat(self) -> None:
        self.may_crash(FAULT)  # here it dies while it waits for an answer
        protocol = self.protocol
        if protocol.asking.incarnation:
            beat = Beat(
                incarnation=protocol.asking.incarnation,
                timeline=protocol.asking.timeline,
                clock=protocol.asking.clock,
                state="computing",
                evaluated=protocol.evaluation.evaluated,
                bounded_clock=protocol.asking.bounded_clock,
            )
            self.ask(COORDINATOR, beat, lambda _: None, CALL_TIMEOUT_S)
        self.after(BEAT_S, self._beat)
