"""What a pace says: when to go on, when to push and pull, how pushes are applied.

One function per question, total over all paces; trainers, servers and the coordinator ask
the same ones.

Pure.
"""

import math
from collections.abc import Iterable, Sequence

from paceline.config import SSP, Async, AsyncDiLoCo, DiLoCo, LocalSGD, Pace, Sync
from paceline.messages.shared import Hyper, PartPlan
from paceline.pace.guards import trains_old_again
from paceline.pace_specs.presets import Grace


def updates_in_rounds(pace: Pace) -> bool:
    """Whether pushes are prepared and committed together, or applied at once."""
    return isinstance(pace, (Sync, LocalSGD, DiLoCo))


def steps_locally(pace: Pace) -> bool:
    """Whether the trainer's own optimizer steps, and a push says how far it has come."""
    return isinstance(pace, (LocalSGD, DiLoCo, AsyncDiLoCo))


def outer_kind(pace: Pace) -> str:
    """The servers' optimizer where trainers step locally, as in `outer_step`."""
    assert steps_locally(pace), f"{pace} has no outer step"
    return "DelayedNesterov" if isinstance(pace, AsyncDiLoCo) else "SGD"


def outer_step(pace: Pace) -> Hyper:
    """What the servers' optimizer makes of a delta: hyper-parameters of its `outer_kind`.

    Local SGD takes the delta as it is.
    """
    if isinstance(pace, AsyncDiLoCo):
        beta, delay = pace.outer_momentum, pace.delay
        return {"lr": pace.outer_lr, "momentum": beta, "delay": delay}
    if isinstance(pace, DiLoCo):
        momentum = pace.outer_momentum
        return {"lr": pace.outer_lr, "momentum": momentum, "nesterov": momentum > 0}
    return {"lr": 1.0, "momentum": 0.0, "nesterov": False}


def outer_parts(plans: Iterable[PartPlan]) -> tuple[int, ...]:
    """Parts of which servers take outer steps on what trainers have come to."""
    return tuple(plan.spec.part for plan in plans if steps_locally(plan.spec.pace))


def backups_of(pace: Pace) -> int:
    """How many trainers a round does without."""
    return pace.backup if isinstance(pace, Sync) else 0


def may_do_without(pace: Pace, num_missing: int, num_trainers: int) -> bool:
    """Whether a round of ``num_trainers`` closes while so many of them are missing."""
    return num_missing <= min(backups_of(pace), num_trainers - 1)


def quorum_of(pace: Pace) -> int | None:
    """How many prepared pushes let a round close without the others; None: it waits."""
    return pace.quorum if isinstance(pace, DiLoCo) else None


def grace_of(pace: Pace) -> Grace:
    """Seconds that a round waits for others when its quorum has come, or ``"auto"``."""
    return pace.grace if isinstance(pace, DiLoCo) else 0.0


def carries_over(pace: Pace) -> bool:
    """Whether a push whose round has closed without it goes into the next one."""
    return isinstance(pace, DiLoCo) and pace.quorum is not None  # asked often


def is_in_step(pace: Pace) -> bool:
    """Whether all who train a part take part in the same rounds of it."""
    return updates_in_rounds(pace) and not carries_over(pace)


def trains_late_again(pace: Pace) -> bool:
    """Whether batches of a late push go back to the queue, or have no effect."""
    return isinstance(pace, Sync) and pace.late == "again"


def staleness_of(pace: Pace) -> int | None:
    """How many steps a trainer may be ahead of the slowest; None: clocks do not matter.

    Rounds hold trainers together by themselves.
    """
    return pace.staleness if isinstance(pace, SSP) else None


def is_within(staleness: int, clock: int, slowest: int) -> bool:
    """Whether a trainer at ``clock`` may go on while the slowest is at ``slowest``.

    Also whether values that were fetched when the slowest was there still serve. All
    updates of the steps up to ``clock - staleness`` are in them (Ho 2013, section 3).
    """
    return clock - slowest <= staleness


def why_not_beside(paces: Iterable[Pace]) -> str | None:
    """Why parts of these paces cannot be trained in one job; None if they can.

    A part in rounds that waits for all holds trainers within one step of each other, which
    is as much as any staleness but 0 asks for.
    """
    known = list(paces)
    again = [pace for pace in known if trains_late_again(pace) or trains_old_again(pace)]
    if again and len(known) > 1:
        what = "late" if trains_late_again(again[0]) else "old"
        return (
            f"{again[0]} gives batches of {what} pushes back to the queue, which other "
            f"parts may have applied: share one part, or let {what} pushes be dropped"
        )
    in_rounds = [pace for pace in known if updates_in_rounds(pace)]
    if len(in_rounds) > 1 and any(backups_of(pace) for pace in in_rounds):
        return (
            f"parts are {' and '.join(map(str, in_rounds))}: who is late for a round of "
            f"one falls out of step with the other; backup goes with one part in rounds"
        )
    if len(in_rounds) > 1 and any(carries_over(pace) for pace in in_rounds):
        return (
            f"parts are {' and '.join(map(str, in_rounds))}: a round with a quorum goes on "
            f"without some that the other waits for; quorum goes with one part in rounds"
        )
    if len({push_from(pace) for pace in in_rounds}) > 1:
        return (
            f"parts are {' and '.join(map(str, in_rounds))}: trainers would wait for each "
            f"other in rounds of different lengths; give them rounds of as many batches"
        )
    turning = [pace for pace in in_rounds if takes_turns(pace)]
    if turning and not are_fragments(in_rounds):
        return (
            f"parts are {' and '.join(map(str, in_rounds))}: rounds of {turning[0]} take "
            f"turns that other rounds know nothing of; use async for the other part"
        )
    bounded = [pace for pace in known if staleness_of(pace) is not None]
    if bounded and any(backups_of(pace) for pace in in_rounds):
        return (
            f"one part is {in_rounds[0]}, another {bounded[0]}: rounds that do without "
            f"some leave them further behind than the other allows; use async for it"
        )
    if bounded and any(steps_locally(pace) for pace in in_rounds):
        return (
            f"one part is {in_rounds[0]}, another {bounded[0]}: who waits for a clock "
            f"in one is waited for in a round of the other; use async for the second"
        )
    strictest = [pace for pace in known if staleness_of(pace) == 0]
    if not in_rounds or not strictest:
        return None
    return (
        f"one part is {in_rounds[0]}, another {strictest[0]}: beside a part in rounds "
        f"trainers can be one step apart, which ssp:0 forbids; use ssp:1, or sync for both"
    )


def push_from(pace: Pace) -> int:
    """Stepped batches of a window from which it is pushed; its end pushes any."""
    if isinstance(pace, (LocalSGD, DiLoCo, AsyncDiLoCo)):
        return pace.every
    return pace.push_every if isinstance(pace, Async) else 1


def adapts_steps(pace: Pace) -> int | None:
    """Batches of the fastest trainer's delta, where slower ones take fewer; else None."""
    return pace.every if isinstance(pace, AsyncDiLoCo) and pace.adapt else None


def pushes_per_update(pace: Pace) -> int:
    """How many pushes that wait for a slot may become one update of it."""
    return pace.merge if isinstance(pace, Async) else 1


def pushes_overlap(pace: Pace) -> bool:
    """Whether a trainer computes on while its last push is under way.

    Values may lack the trainer's own last ``pull_every - 1`` batches. A window of
    ``push_every`` takes so many less one; if as many again are left, the push before need
    not be waited for.
    """
    return isinstance(pace, Async) and pace.pull_every >= 2 * pace.push_every


_ALWAYS, _NEVER = -math.inf, math.inf


def pull_from(pace: Pace, *, has_pushed: bool) -> float:
    """Batches since values were fetched last, from which they are fetched again.

    With ``has_pushed`` a push has just left, so that these would be in what is fetched.
    Rounds pull by themselves.
    """
    if isinstance(pace, AsyncDiLoCo):
        return _ALWAYS if has_pushed else _NEVER  # the next delta begins there
    if isinstance(pace, SSP):
        return _ALWAYS if has_pushed else 1
    if not isinstance(pace, Async):
        return _NEVER
    if not has_pushed:
        return pace.pull_every
    # The next chance is one push later, and what overlaps comes a push later still.
    late = pace.push_every if pushes_overlap(pace) else 0
    return pace.pull_every - late - pace.push_every + 1


def weigh(pace: Pace, records: int, total: int) -> float:
    """The weight of a contribution of ``records`` in a round of ``total`` records.

    ``records / total`` makes the round the mean over all records, as one process would
    have it on the joined batch; 1 sums. A push of late batches alone has no records.
    """
    is_sum = isinstance(pace, Sync) and pace.reduce == "sum"
    return 1.0 if is_sum else records / max(total, 1)


def fragments_of(pace: Pace) -> int:
    """How many parts of its own a model is shared as, whose rounds take turns.

    ::

        batch       h/3 . . . . 2h/3 . . . . h . . . . 4h/3 . . . . 5h/3
        pushed      fragment 0  fragment 1   fragment 2  fragment 0   fragment 1

    Each has a round every ``h`` batches, and the rounds of all are spread evenly, so that a
    third of the bytes goes out at a time (Douillard et al. 2025, Streaming DiLoCo,
    algorithm 2).
    """
    return pace.fragments if isinstance(pace, DiLoCo) else 1


def round_overlap(pace: Pace) -> int:
    """Batches that a trainer goes on for while a round of its own is under way."""
    return pace.overlap if isinstance(pace, DiLoCo) else 0


def mix_of(pace: Pace) -> float:
    """What of a trainer's own stays after a round: ``mix * own + (1 - mix) * shared``."""
    return pace.mix if isinstance(pace, DiLoCo) else 0.0


def takes_turns(pace: Pace) -> bool:
    """Whether pushes are due by turns, and need not be waited for at once."""
    return fragments_of(pace) > 1 or round_overlap(pace) > 0


def are_fragments(paces: Sequence[Pace]) -> bool:
    """Whether parts of these paces are fragments of one model, or some of them."""
    return len(set(paces)) == 1 and len(paces) <= fragments_of(paces[0])


def batches_of_turn(pace: Pace, fragment: int) -> int:
    """Batches between the push before and that of a fragment; of all, they make `every`."""
    assert isinstance(pace, DiLoCo)
    every, count = pace.every, pace.fragments
    return every * (fragment + 1) // count - every * fragment // count


def cut_fragments(sizes: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """Whole parameters of these ``sizes`` dealt out, so that fragments are nearly of one.

    The largest first, each to the fragment that has the least so far: the numbers of its
    parameters, ascending; none is empty. The same on every machine; the paper finds that
    fragments of neighbors are no better than others.
    """
    assert 1 <= count <= len(sizes)
    fragments: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        least = min(fragments, key=lambda one: (sum(sizes[i] for i in one), len(one)))
        least.append(index)
    return tuple(sorted(tuple(sorted(one)) for one in fragments))
