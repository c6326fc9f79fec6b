"""Draws a job's life, as SVG for light pages and for dark: one joins, two are killed.

::

    .venv/bin/python -m tools.draw_life        the pictures, from docs/images/life.json
    .venv/bin/python -m tools.draw_life run    runs the job first, which writes that file

The job is `examples/images/uneven.py`, with three trainers and two servers in lockstep. A
fourth trainer joins, one is killed, a server is killed, and then nobody waits any more.
Seconds count from the first record that is trained. Waits: for the job, and for the disk.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from paceline.events import event_lines
from paceline.watch.history import rates, read_history, smoothed
from paceline.watch.pictures import FONT
from tools.draw_batch import DARK, IMAGES, LIGHT, Colors

ROOT = Path(__file__).resolve().parents[1]
MOMENTS = IMAGES / "life.json"
PICTURES = {"life-light.svg": LIGHT, "life-dark.svg": DARK}
TITLE = (
    "A job in which a trainer joins, a trainer and a server are killed, the pace changes"
)
WIDTH, LEFT, RIGHT = 960, 132, 936
RATE, LOSS, LANES = (96, 196), (226, 316), 352  # top and bottom of each
LANE = 24
ALARM = {LIGHT: "#d84315", DARK: "#ff8a65"}  # deep orange: who is killed
ACTS = ("join", "trainer-1", "server-0", "async:scale=1")
SCRIPT = "examples/images/uneven.py"
ACT_S = 9.0  # from the first record to the first, and from each to the next
DEADLINE_S = 300.0
COMMAND = (sys.executable, "-m", "paceline.cli.main")


class Life(NamedTuple):
    """What is drawn: seconds since the first record beside each."""

    seconds: float
    records: int
    rates: list[tuple[float, float]]
    losses: list[tuple[float, float]]
    lives: dict[str, list[tuple[float, float]]]  # {role: from when to when}
    marks: list[tuple[float, str, bool]]  # when, what, and whether it is a kill


def read_life(path: Path) -> Life:
    """Of an ``events.jsonl`` whose job has ended."""
    lines = list(event_lines(path))
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]  # Any: by event
    history = read_history(lines)
    first = next(event["t"] for event in events if event["event"] == "LeaseGranted")
    begun = first - events[0]["t"]
    last = history.progress[-1].seconds - begun
    progress = [moment for moment in history.progress if moment.seconds >= begun]
    found = [(round(at - begun, 2), round(rate)) for at, rate in rates(progress)]
    logged = [point for series in history.metrics["loss"].values() for point in series]
    when = {moment.records: moment.seconds - begun for moment in reversed(progress)}
    losses = [
        (round(_at(when, point.records), 2), round(point.value, 4))
        for point in smoothed(logged, share=0.02)
    ]
    return Life(
        round(last, 2),
        history.records,
        [(at, float(rate)) for at, rate in found],
        sorted({at: loss for at, loss in losses if at >= 0}.items()),
        {role: list(spans) for role, spans in sorted(_lives(events, first, last).items())},
        list(_marks(events, first)),
    )


def _at(when: Mapping[int, float], records: int) -> float:
    """When the job had counted so many records: at the next moment that told so."""
    return min((at for count, at in when.items() if count >= records), default=-1.0)


def _role(event: Mapping[str, Any]) -> str:  # Any: see read_life
    return str(event.get("trainer") or event.get("server"))


def _lives(
    events: Sequence[Mapping[str, Any]], first: float, last: float
) -> dict[str, list[tuple[float, float]]]:
    """{role: from when to when it was a member}."""
    spans: dict[str, list[tuple[float, float]]] = {}
    since: dict[str, float] = {}
    for event in events:
        at, name = round(event["t"] - first, 2), event["event"]
        if name in {"TrainerJoined", "ServerJoined"}:
            since.setdefault(_role(event), max(at, 0.0))
        elif name in {"TrainerLost", "ServerLost", "TrainerLeft"}:
            begun = since.pop(_role(event), None)
            if begun is not None:
                spans.setdefault(_role(event), []).append((begun, min(at, last)))
    for role, begun in since.items():
        spans.setdefault(role, []).append((begun, round(last, 2)))
    return spans


def _marks(
    events: Sequence[Mapping[str, Any]], first: float
) -> Iterator[tuple[float, str, bool]]:
    known = {_role(e) for e in events if e["event"] == "TrainerJoined" and e["t"] <= first}
    for event in events:
        at, name = round(event["t"] - first, 2), event["event"]
        if name == "TrainerJoined" and _role(event) not in known and at > 1:
            known.add(_role(event))
            yield at, f"{_role(event)} joins", False
        elif name == "TrainerLost":
            yield at, f"{_role(event)} is killed", True
        elif name == "ServerLost":
            yield at, f"{_role(event)} is killed: back to the last checkpoint", True
        elif name == "PaceChanged":
            before, after = event["before"]["0"], event["paces"]["0"]
            yield at, f"pace: {before} → {after}", False


def draw(life: Life, colors: Colors) -> str:
    """The whole picture."""
    height = LANES + LANE * len(life.lives) + 48

    def x(seconds: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * seconds / life.seconds, 1)

    body = [
        *_head(life, colors),
        *_curve(colors, life.rates, RATE, x, "records", "a second", steps=True),
        *_curve(colors, life.losses, LOSS, x, "loss", ""),
        *_lanes(life, colors, x),
        *_axis(life, colors, x, height),
        *_named(life, colors, x, height),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" aria-label="{TITLE}" font-family="{FONT}">',
            f"<title>{TITLE}</title>",
            *body,
            "</svg>",
            "",
        ]
    )


def _text(
    color: str, at: tuple[float, float], text: str, *, size: int = 13, how: str = ""
) -> str:
    x, y = at
    words = escape(text)
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" {how}>{words}</text>'


def _head(life: Life, c: Colors) -> list[str]:
    end, bold = 'text-anchor="end"', 'font-weight="600"'
    told = f"{life.records:,} records trained, each counted once"
    return [
        _text(
            c.ink,
            (16, 26),
            "One joins, two are killed, the pace changes",
            size=17,
            how=bold,
        ),
        _text(c.faint, (RIGHT, 26), told, size=14, how=end),
    ]


def _curve(
    c: Colors,
    points: Sequence[tuple[float, float]],
    span: tuple[int, int],
    x: Callable[[float], float],
    *names: str,
    steps: bool = False,
) -> list[str]:
    """A panel with a line, above an area where it is made of steps."""
    top, bottom = span
    most = max(value for _, value in points)
    unit = next(u for u in (0.5, 1, 2, 500, 1000, 2000, 5000) if most / u <= 4)
    scale = (bottom - top) / most
    found = []
    for n in range(int(most / unit) + 1):
        y = round(bottom - n * unit * scale, 1)
        label = f"{n * unit:,.0f}" if unit >= 1 else f"{n * unit:g}"
        found += [
            f'<path d="M{LEFT} {y}H{RIGHT}" stroke="{c.line}" stroke-opacity="0.35"/>',
            _text(c.faint, (LEFT - 8, y + 4), label, size=12, how='text-anchor="end"'),
        ]
    for n, name in enumerate(names):
        found.append(_text(c.ink, (16, top + 16 + 17 * n), name))
    ways = [(x(at), round(bottom - value * scale, 1)) for at, value in points]
    path = f"M{ways[0][0]} {ways[0][1]}"
    for right, y in ways[1:]:
        path += f"V{y}H{right}" if steps else f"L{right} {y}"
    if steps:
        area = f"{path}V{bottom}H{ways[0][0]}Z"
        found.append(f'<path d="{area}" fill="{c.step}" fill-opacity="0.15"/>')
    line = f'fill="none" stroke="{c.step}" stroke-width="2" stroke-linejoin="round"'
    return [*found, f'<path d="{path}" {line}/>']


def _lanes(life: Life, c: Colors, x: Callable[[float], float]) -> list[str]:
    found = []
    for n, (role, spans) in enumerate(life.lives.items()):
        y = LANES + LANE * n
        found.append(_text(c.ink, (16, y + 13), role))
        color = c.step if role.startswith("trainer") else c.line
        for since, until in spans:
            left, width = x(since), round(x(until) - x(since), 1)
            box = f'x="{left}" y="{y}" width="{width}" height="{LANE - 7}" rx="3"'
            found.append(f'<rect {box} fill="{color}" fill-opacity="0.75"/>')
    return found


def _axis(life: Life, c: Colors, x: Callable[[float], float], height: int) -> list[str]:
    y, how = height - 28, 'text-anchor="middle"'
    ticks = [
        _text(c.faint, (x(s), y), str(s), size=12, how=how)
        for s in range(0, int(life.seconds) + 1, 10)
    ]
    return [*ticks, _text(c.faint, (LEFT, height - 8), "seconds since the first record")]


def _named(life: Life, c: Colors, x: Callable[[float], float], height: int) -> list[str]:
    """A line where something happens, with its name above, in two rows."""
    found = []
    for n, (at, name, is_kill) in enumerate(life.marks):
        color, y = ALARM[c] if is_kill else c.ink, 58 + 20 * (n % 2)
        found += [
            f'<path d="M{x(at)} {y + 4}V{height - 44}" stroke="{color}" '
            'stroke-width="1.5" stroke-dasharray="4 3"/>',
            _text(color, (x(at) - 4, y), name, how='font-weight="600"'),
        ]
    return found


def run(job: Path) -> None:
    """Run the job in a folder, and do to it what the picture shows.

    Raises:
        RuntimeError: it did not begin, or did not end well, in time.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    flags = ("--trainers", "3", "--servers", "2", "--checkpoint-every", "5s")
    command = (*COMMAND, "run", *flags, "--job-dir", str(job), SCRIPT)
    started = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        _wait_first_record(job, started)
        for act in ACTS:
            time.sleep(ACT_S)
            _act(act, job, environment)
        if started.wait(DEADLINE_S) != 0:
            raise RuntimeError(f"the job in {job} ended with {started.returncode}")
    finally:
        started.terminate()  # it saves what there is; then its folder may go
        started.wait(DEADLINE_S)


def _wait_first_record(job: Path, started: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if started.poll() is not None:
            raise RuntimeError(f"the job in {job} ended with {started.returncode}")
        if any(b'"LeaseGranted"' in line for line in _lines(job)):
            return
        time.sleep(0.1)
    raise RuntimeError(f"no record was trained in {job} within {DEADLINE_S:.0f} s")


def _lines(job: Path) -> list[bytes]:
    events = job / "events.jsonl"
    return list(event_lines(events)) if events.exists() else []


def _act(act: str, job: Path, environment: Mapping[str, str]) -> None:
    def told(*words: str) -> str:
        command = [*COMMAND, *words]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        return done.stdout

    if act == "join":
        told("scale", "4", str(job))
    elif act.startswith("async"):
        told("pace", str(job), act)
    else:
        processes = json.loads(told("status", "--json", str(job)))["processes"]
        os.kill(next(p["pid"] for p in processes if p["id"] == act), signal.SIGKILL)


def main(arguments: Sequence[str]) -> int:
    """Write the pictures; with ``run``, run what they show before."""
    if list(arguments[1:]) == ["run"]:
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder) / "job"
            run(job)
            life = read_life(job / "events.jsonl")
        MOMENTS.write_text(json.dumps(life._asdict(), indent=None) + "\n", encoding="utf-8")
    life = read_moments()
    for name, colors in PICTURES.items():
        (IMAGES / name).write_text(draw(life, colors), encoding="utf-8")
    return 0


def read_moments() -> Life:
    """What was seen when the job ran last."""
    return Life(**json.loads(MOMENTS.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
