"""A forecast of the very job, beside what was measured; and what another pace would bring.

The job is forecast as it is: its pace, so many trainers and servers, batches as long as
those of the last minute or so. Only where that agrees with what was measured is anything
said of other paces: what a forecast does not know of is the reason where it does not.

Forecasts are made while somebody looks, and what they may cost is bounded.

Pure: time, and what was computed meanwhile, are arguments.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from paceline.config import SSP, Pace, Sync, parse_pace
from paceline.errors import UsageError

MOST_BATCHES: Final = 2000  # of one forecast, which so takes some tenths of a second
FEWEST_STEPS, MOST_STEPS = 10, 100  # of each trainer
MOST_TRAINERS: Final = 64  # of a job that is forecast: of more, events tell of some
KEPT_LINES = 8  # of each trainer; it writes one every ten seconds
LOOKED_S = 5.0  # so long a look counts: a page that is open looks once a second
EVERY_S = 15.0  # between two goes of forecasts, at least
UNTOLD_EVERY_S = 1.0  # until there is something to forecast from: that costs nothing
COST_SHARE = 20  # goes that cost more are so many times as long apart
MOST_COST_S = 2.0  # of a processor, for all forecasts of one go
NEAR_RATE = 1.3  # times
NEAR_SHARE = 0.15  # of trainers' time
WORTH = 1.15  # times the records/s: a pace that brings less is not told
SLOW = 1.5  # times as long for a batch as the middle one of all trainers

PARTS: Final = ("computing", "waiting for servers", "waiting for others")

Facts = dict[str, Any]
Shares = tuple[float, float, float]  # of PARTS


class MeasuredJob(NamedTuple):
    """What is known of a job that was measured.

    ``pushed_bytes`` are of a batch; ``rate`` is in records a second; ``computed`` are
    events of that name.
    """

    pace: str
    trainers: int
    servers: int
    batch_size: int
    pushed_bytes: int
    rate: float
    shares: Shares
    computed: tuple[Facts, ...]


@final
class Past:
    """What a forecast is fitted to, as events tell it: bounded, the newest."""

    def __init__(self) -> None:
        """Nothing is known."""
        self.batch_size = 0  # of the stage that is read
        self._lines: dict[str, deque[Facts]] = {}  # {trainer: events}

    def note(self, event: Facts) -> None:
        """Take note of an event of any name.

        Raises:
            KeyError, TypeError, ValueError: it is none that is known.
        """
        name = event["event"]
        if name == "RunBegun":  # by others, perhaps
            self._lines.clear()
        elif name == "StageRegistered":
            if event["spec"].get("kind", "train") == "train":
                self.batch_size = int(event["spec"]["batch_size"])
        elif name == "computed":
            trainer = str(event["trainer"])
            if trainer in self._lines or len(self._lines) <= MOST_TRAINERS:
                kept = self._lines.setdefault(trainer, deque(maxlen=KEPT_LINES))
                kept.append(event)

    def computed(self, trainers: Iterable[str]) -> tuple[Facts, ...]:
        """Events of these trainers."""
        names = self._lines.keys() & set(trainers)
        return tuple(event for name in sorted(names) for event in self._lines[name])


@final
class ForecastTurns:
    """When it is time for forecasts: while somebody looks, and again after a while.

    The first look after a while asks for one at once. Of a job that is over there is one.
    """

    def __init__(self) -> None:
        """Nobody looks."""
        self._looked_s = self._due_s = -math.inf
        self._was_over = False  # the last time

    def note_look(self, now_s: float) -> None:
        """Somebody looks at this moment."""
        self._looked_s = now_s

    def note_made(
        self, now_s: float, cost_s: float, *, is_told: bool, is_over: bool
    ) -> None:
        """Forecasts were made, if there was something to tell; ``is_over``: of all."""
        every_s = EVERY_S if is_told else UNTOLD_EVERY_S
        self._due_s = now_s + max(every_s, COST_SHARE * cost_s)
        self._was_over = is_over

    def is_due(self, now_s: float, *, is_over: bool) -> bool:
        """Whether forecasts are to be made now."""
        is_looked_at = now_s - self._looked_s <= LOOKED_S
        if is_over != self._was_over:
            return is_looked_at
        return is_looked_at and not is_over and now_s >= self._due_s


def is_too_dear(costs_s: Sequence[float]) -> bool:
    """Whether one more forecast, as dear as the dearest so far, is too much for one go."""
    return sum(costs_s) + max(costs_s) > MOST_COST_S


def foresee(job: MeasuredJob, worked_s: Callable[[], float]) -> Facts:
    """The forecast beside what was measured, and what other paces would bring.

    Empty if there is nothing to say yet; ``told`` alone if the job cannot be forecast.
    ``worked_s`` says what this thread has computed, in seconds: paces that would cost too
    much are left out, and that is told.
    """
    if not job.computed or not job.batch_size or job.rate <= 0:
        return {}
    if job.trainers > MOST_TRAINERS:
        return {"told": f"jobs of more than {MOST_TRAINERS} trainers are not forecast here"}
    # The forecast brings the coordinator and the server along: only who looks needs them.
    from paceline.forecast.job import forecast  # noqa: PLC0415

    if job.pace.startswith(("auto", "part ")):
        return {
            "told": f"no forecast: the pace is not one for all and for long: {job.pace}"
        }
    try:
        pace = parse_pace(job.pace)
        before_s = worked_s()
        here = forecast(_plan(job, pace))
        costs_s = [worked_s() - before_s]
        rate, shares = here.records_per_second, _shares(here.spells)
        wrong = _differs(job, shares, rate)
        others, left_out = [], []
        for one in [] if wrong else _others(pace, job.trainers):
            if is_too_dear(costs_s):
                left_out.append(str(one))
                continue
            before_s = worked_s()
            others.append((str(one), forecast(_plan(job, one))))
            costs_s.append(worked_s() - before_s)
    except UsageError as error:
        return {"told": f"no forecast: {error}"}
    paces: list[tuple[str, float]] = [
        (name, round(one.effective_per_second / here.effective_per_second, 2))
        for name, one in others
    ]
    paces = [(name, times) for name, times in paces if times >= WORTH]
    reasons = [wrong] if wrong else [_slowest(job.computed), _dear(left_out)]
    said = [_agreement(rate, job.rate), *reasons, _what_paces_bring(len(others), paces)]
    return {
        "parts": list(PARTS),
        "measured": [round(share, 4) for share in job.shares],
        "forecast": [round(share, 4) for share in shares],
        "rates": [round(job.rate, 1), round(rate, 1)],
        "told": " ".join(sentence for sentence in said if sentence),
        "paces": paces,
    }


def _shares(spells: Mapping[Any, float]) -> Shares:
    """Of a forecast, as they are measured."""
    computing = spells["computing"] + spells["paused"]
    return computing, spells["servers"], spells["coordinator"]


def _plan(job: MeasuredJob, pace: Pace) -> Any:  # noqa: ANN401  (of a room that loads late)
    from paceline.forecast.fitting import fit_events  # noqa: PLC0415
    from paceline.forecast.plan import Plan  # noqa: PLC0415

    fitted = fit_events(job.computed)
    if fitted is None:
        raise UsageError("no line 'computed' can be read")
    steps = max(FEWEST_STEPS, min(MOST_STEPS, MOST_BATCHES // job.trainers))
    return Plan(
        trainers=job.trainers,
        servers=max(1, job.servers),
        pace=pace,
        steps=steps,
        batch_size=job.batch_size,
        compute=fitted.compute,
        pauses=fitted.pauses,
        parameter_bytes=job.pushed_bytes,
        cut_every_s=0.0,
    )


def _differs(job: MeasuredJob, shares: Shares, rate: float) -> str:
    """Why the forecast is not to be trusted; empty: it is near enough."""
    gaps = [found - told for found, told in zip(job.shares, shares, strict=True)]
    worst = max(range(len(PARTS)), key=lambda n: abs(gaps[n]))
    is_near = abs(math.log(rate / job.rate)) <= math.log(NEAR_RATE)
    if is_near and abs(gaps[worst]) <= NEAR_SHARE:
        return ""
    return (
        f"They differ, as to trainers' time most in {PARTS[worst]}: forecast "
        f"{100 * shares[worst]:.0f} %, measured {100 * job.shares[worst]:.0f} %. Something "
        "takes time that the forecast does not know of, as a full machine does; so it says "
        "nothing of other paces."
    )


def _agreement(forecast: float, measured: float) -> str:
    apart = 100 * abs(forecast / measured - 1)
    rates = f"Forecast {_rate(forecast)} records/s, measured {_rate(measured)}"
    return f"{rates}: {apart:.0f} % apart."


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"


def _what_paces_bring(tried: int, paces: Sequence[object]) -> str:
    if not tried:
        return ""
    if not paces:
        return "No other pace brings much more by a forecast."
    return (
        "By a forecast of each, other paces bring (what they do to learning, only training "
        "tells):"
    )


def _slowest(computed: Iterable[Facts]) -> str:
    """Who is slow, if one is; in words."""
    means: dict[str, list[float]] = {}
    for event in computed:
        means.setdefault(str(event["trainer"]), []).append(float(event["mean_s"]))
    by_time = sorted((sum(told) / len(told), name) for name, told in means.items())
    middle, (most, name) = by_time[(len(by_time) - 1) // 2][0], by_time[-1]
    if len(by_time) < 2 or most < SLOW * middle:
        return ""
    return f"{name} takes {most / middle:.1f} times as long for a batch as the middle one."


def _dear(left_out: Sequence[str]) -> str:
    if not left_out:
        return ""
    named = ", ".join(left_out)
    return f"Not forecast, since that takes this machine too long: {named}."


def _others(pace: Pace, trainers: int) -> list[Pace]:
    """Paces that wait less, the nearest first."""
    if trainers < 2:
        return []
    if isinstance(pace, Sync):
        has_backup = pace.backup > 0 or pace.reduce != "mean" or trainers < 3
        first = [] if has_backup else ["sync:backup=1"]
        return [parse_pace(text) for text in [*first, "ssp:3", "async"]]
    return [parse_pace("async")] if isinstance(pace, SSP) else []
