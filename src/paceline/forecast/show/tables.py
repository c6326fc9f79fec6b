"""Forecasts as a table for people: one column for each, one row for each number.

Pure.
"""

from collections.abc import Sequence

from paceline.forecast.job import Busyness, Forecast

Row = tuple[str, list[str]]


def table_of(forecasts: Sequence[Forecast]) -> list[Row]:
    """Rows of (name, one value for each forecast); names of groups have no values."""
    found = list(forecasts)
    rows: list[Row] = [
        ("pace", [f.pace for f in found]),
        ("trainers, servers", [f"{f.trainers:,}, {f.servers:,}" for f in found]),
        ("records/s", [_rate(f.records_per_second) for f in found]),
        ("  times the first", [_ratio(f, found[0]) for f in found]),
        ("updates/s", [_rate(f.updates_per_second) for f in found]),
        ("  in late pushes", [percent(f.late) for f in found]),
        ("seconds", [seconds(f.seconds) for f in found]),
        ("a batch of a trainer", [seconds(f.step_s) for f in found]),
        ("a trainer's time", []),
        ("  computes", [percent(f.spells["computing"]) for f in found]),
        ("  waits for servers", [percent(f.spells["servers"]) for f in found]),
        ("  waits for others", [percent(f.spells["coordinator"]) for f in found]),
        ("  has no work", [percent(f.spells["without work"]) for f in found]),
        ("  pauses", [percent(f.spells["paused"]) for f in found]),
        ("  is away, or else", [percent(f.spells["other"]) for f in found]),
        ("age of a push", []),
        ("  mean", [f"{f.ages.mean:,.1f}" for f in found]),
        ("  half, 90 %, 99 %", [_ages(f) for f in found]),
        ("  most", [f"{f.ages.most:,}" for f in found]),
        ("  too old", [percent(f.too_old) for f in found]),
        ("clocks apart, mean, most", [f"{f.gap_mean:,.1f}, {f.gap_most}" for f in found]),
        ("each server: busy, wait", []),
        ("  processor", [_load(f.server.cpu) for f in found]),
        ("  network in", [_load(f.server.inward) for f in found]),
        ("  network out", [_load(f.server.outward) for f in found]),
        ("  in, out a second", [_traffic(f) for f in found]),
        ("  messages a second", [f"{f.server.messages_per_s:,.0f}" for f in found]),
        ("coordinator: busy, wait", [_load(f.coordinator) for f in found]),
        ("  requests a second", [f"{f.requests_per_s:,.0f}" for f in found]),
    ]
    if any(f.deaths for f in found):
        rows += [
            ("deaths", [_deaths(f) for f in found]),
            ("  computed in vain", [percent(1 - f.useful) for f in found]),
        ]
    if len(found) == 1:
        del rows[3]  # beside nothing
    return [(name, values) for name, values in rows if not _is_nothing(name, values)]


def text_of(rows: Sequence[Row]) -> str:
    """Rows as columns of text, however wide: a comparison is read across."""
    columns = max(len(values) for _, values in rows)
    names = max(len(name) for name, _ in rows)
    widths = [
        max(len(values[n]) for _, values in rows if len(values) > n) for n in range(columns)
    ]
    lines = []
    for name, values in rows:
        cells = [value.rjust(width) for value, width in zip(values, widths, strict=False)]
        lines.append("  ".join([name.ljust(names), *cells]).rstrip())
    return "\n".join(lines)


def seconds(value: float) -> str:
    """A duration with its unit."""
    for factor, unit in ((1e-3, "us"), (1.0, "ms")):
        if value < factor:
            return f"{value / factor * 1000:.3g} {unit}"
    return f"{value:,.3g} s" if value < 1000 else f"{value:,.0f} s"


def percent(share: float) -> str:
    """A share of 1."""
    return f"{100 * share:.1f} %"


def amount(size: float) -> str:
    """Bytes with their unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def _is_nothing(name: str, values: list[str]) -> bool:
    return name.strip() in _RARE and set(values) == {"0.0 %"}


_RARE = {"too old", "pauses", "is away, or else", "in late pushes"}


def _ratio(found: Forecast, first: Forecast) -> str:
    return f"{found.records_per_second / first.records_per_second:.2f}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _ages(found: Forecast) -> str:
    return f"{found.ages.p50:,}, {found.ages.p90:,}, {found.ages.p99:,}"


def _load(load: Busyness) -> str:
    return f"{100 * load.busy:.0f} %, {seconds(load.wait_s)}"


def _traffic(found: Forecast) -> str:
    server = found.server
    return f"{amount(server.bytes_in_per_s)}, {amount(server.bytes_out_per_s)}"


def _deaths(found: Forecast) -> str:
    return ", ".join(f"{n} {kind}s" for kind, n in sorted(found.deaths.items())) or "none"
