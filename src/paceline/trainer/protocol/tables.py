"""Steps over several servers and tables that have their effect together or not at all.

::

    held        every server has every push of the step, and says so
    committed   the coordinator has journalled the step
    applied     every server lets it have its effect, and lets its locks go

Who dies before the second has changed nothing, anywhere; who dies behind it has changed
everything: the order that fences it carries the step to whoever has not applied it yet.

A step that goes to one server alone needs nobody's word: the last of its pushes says which
they are, and the server applies all of them in one breath.

For locks servers are asked one after the other in ascending order, and each for all rows at
once: so nobody who has rows on one server waits for somebody who waits for these.

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

from msgspec.structs import replace

from paceline.errors import LockTimeout, Refused
from paceline.ids import OF_NO_BATCH, TaskKey
from paceline.messages.data import Push, Pushed
from paceline.messages.locking import ApplyStep, CommitStep, Lock, Locked, Unlock
from paceline.messages.shared import Lease, Message, StageSpec
from paceline.messages.trainer import AskLease, HandBack
from paceline.messages.waits import Wait
from paceline.trainer.acts import FIRST_PAUSE_S, Act, Asking, Pause
from paceline.trainer.holdings import Leases, LeaseWork, SharedPart, Writing

Pushes = Mapping[str, Message]  # {server: its push}


def under_locks(pushes: Pushes, writing: Writing, *, is_held: bool) -> dict[str, Message]:
    """The same pushes, each with the token of its server's lock, held if need be."""
    return {
        server: replace(push, token=writing.tokens.get(server), is_held=is_held)
        for server, push in pushes.items()
    }


def push_together(asking: Asking, pushes: Sequence[Pushes]) -> Act[None]:
    """Push several parts' windows to all their servers as one step.

    ``pushes``: of each part, `under_locks`; held if there is more than one in all.

    Raises:
        Refused: a lock was lost; nothing has had an effect, anywhere.
    """
    step = {
        push.part: push.number
        for of_part in pushes
        for push in of_part.values()
        if isinstance(push, Push)
    }
    servers = sorted({server for of_part in pushes for server in of_part})
    leaving = [dict(of_part) for of_part in pushes]
    if len(servers) == 1 and len(pushes) > 1:  # the last one says that the step is there
        last = leaving[-1].items()
        leaving[-1] = {server: replace(push, completes=step) for server, push in last}
    posted = [asking.post(of_part) for of_part in leaving]
    replies: list[Mapping[str, Message]] = []
    refused: Refused | None = None
    for one in posted:
        try:
            replies.append((yield from asking.collect(one)).replies)
        except Refused as why:
            refused = refused or why
    if refused is not None:
        drop = ApplyStep(**asking.who(), pushes=step, is_dropped=True)
        yield from asking.ask_servers(dict.fromkeys(servers, drop))
        raise refused
    if holders := _holders(replies):
        yield from asking.ask(CommitStep(**asking.who(), pushes=step))
        apply = ApplyStep(**asking.who(), pushes=step)
        yield from asking.ask_servers(dict.fromkeys(holders, apply))


def _holders(replies: Sequence[Mapping[str, Message]]) -> list[str]:
    """Servers that hold any of the pushes still."""
    held = {s for of_part in replies for s, r in of_part.items() if _said(r, "held")}
    done = {s for s, r in replies[-1].items() if _said(r, "applied")}
    return sorted(held - done)


def _said(reply: Message, verdict: str) -> bool:
    return isinstance(reply, Pushed) and reply.verdict == verdict


def take_locks(
    asking: Asking, locks: Mapping[str, Lock], timeout_s: float
) -> Act[dict[str, int]]:
    """Lock rows on all servers that have some, {server: what is asked of it}: the tokens.

    Raises:
        LockTimeout: others have had rows all the time, ``timeout_s`` for all of them
            together; who. Nothing is locked.
    """
    since_s, until_s = asking.now_s, asking.now_s + timeout_s
    tokens: dict[str, int] = {}
    for server in sorted(locks):
        message = asking.current(locks[server])
        while True:
            reply = yield from asking.try_server(server, message, since_s)
            if isinstance(reply, Locked):
                tokens[server] = reply.token
                break
            if not isinstance(reply, Wait):
                reply = Wait("servers", f"{server} said {reply}", (server,))
            if asking.now_s >= until_s:
                yield from let_go(asking, locks)
                raise LockTimeout(
                    f"lock of {sum(locks[server].rows.counts)} rows on {server}: not had "
                    f"within {timeout_s:g} s, since {reply.reason}; lock fewer rows at "
                    f"a time, or give it more time by timeout_s"
                )
            yield Pause(FIRST_PAUSE_S, reply)
    return tokens


def let_go(asking: Asking, locks: Mapping[str, Lock]) -> Act[None]:
    """Let locks go, or the places in line for them."""
    messages: dict[str, Message] = {
        server: Unlock(**asking.who(), part=lock.part, number=lock.number)
        for server, lock in locks.items()
    }
    yield from asking.ask_servers(messages)


def push_alone_together(asking: Asking, parts: Mapping[SharedPart, Writing]) -> Act[None]:
    """Push what was written under locks and belongs to no batch, as one step, once.

    Raises:
        Refused: a lock was lost; nothing has had an effect.
    """
    pushes: list[Pushes] = []
    is_held = sum(len(writing.tokens) for writing in parts.values()) > 1
    for part, writing in parts.items():
        part.number += 1
        push = Push(
            **asking.who(),
            part=part.spec.part,
            number=part.number,
            window=OF_NO_BATCH,
            records=0,
        )
        to_all = dict.fromkeys(sorted(writing.tokens), push)
        pushes.append(under_locks(to_all, writing, is_held=is_held))
    yield from push_together(asking, pushes)


class StandingThen(NamedTuple):
    """Who the trainer was when it asked: what it was told holds as long as it is that."""

    incarnation: int
    timeline: int


@final
class Rotation:
    """The acts of one trainer in rotations, where tasks are cells of data and a table."""

    def __init__(
        self, asking: Asking, leases: Leases, parts: dict[int, SharedPart]
    ) -> None:
        self._asking, self._leases, self._parts = asking, leases, parts

    @property
    def standing(self) -> StandingThen:
        """Who the trainer is now."""
        return StandingThen(self._asking.incarnation, self._asking.timeline)

    def visit(self, key: TaskKey, first: int) -> int:
        """The last batch of a cell that a window from ``first`` on can have.

        Batches that are known to some server already go in a window of their own.
        """
        work = self._work_on(key)
        edges = [edge for edge in work.lease.edges if edge >= first]
        return min([*edges, work.num_batches - 1])

    def deliver(self, key: TaskKey, last: int) -> None:
        """Batches up to ``last`` are in the user's hands, too."""
        work = self._work_on(key)
        while work.next_batch <= last:
            batch = self._leases.deliver(work)
            records = work.batch_records(batch)
            for part in self._parts.values():
                part.deliver(work.lease, batch, records)

    def holds(self, key: TaskKey) -> bool:
        """Whether a cell is this trainer's still: it may have joined again meanwhile."""
        return self._leases.of(key) is not None

    def lease_of(self, key: TaskKey) -> Lease:
        """The lease of a cell that is held."""
        return self._work_on(key).lease

    def num_held(self) -> int:
        """Cells that are held."""
        return len(self._leases.held(()))

    def carry_over(self, key: TaskKey) -> HandBack | None:
        """Hold a cell no longer whose time is over: what to tell of it, if it was held.

        All that was trained of it is acknowledged.
        """
        work = self._leases.drop(key)
        if work is None:
            return None
        acked, tokens = (work.acked(tuple(self._parts)),), (work.lease.token,)
        return HandBack(**self._asking.who(), tokens=tokens, acked=acked, is_carried=True)

    def ahead(self, stage: StageSpec) -> AskLease:
        """The question for one more cell while one is computed; any thread may ask."""
        held = self._leases.held(tuple(self._parts))
        return AskLease(**self._asking.who(), stage=stage.stage, held=held)

    def take(self, stage: StageSpec, lease: Lease, standing: StandingThen) -> None:
        """A lease that was asked for ahead is held from now on, unless it is void.

        One that the trainer enters with is asked for once more, by `next_batch`: entering
        is more than holding a lease.
        """
        if standing == self.standing and lease.entry != lease.token:
            self._leases.add(LeaseWork(lease, stage))

    def _work_on(self, key: TaskKey) -> LeaseWork:
        work = self._leases.of(key)
        assert work is not None, f"{key} is held while it is visited"
        return work
