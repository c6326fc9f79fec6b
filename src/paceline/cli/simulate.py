"""``paceline simulate``: what a job would do on machines that one does not have yet."""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from paceline.cli.options import parse_every
from paceline.config import parse_pace
from paceline.errors import UsageError
from paceline.events import event_lines
from paceline.forecast.advice import Advice
from paceline.forecast.advice import advise as advise_on
from paceline.forecast.fitting import Fitted
from paceline.forecast.fitting import fit as fit_run
from paceline.forecast.job import Forecast, forecast
from paceline.forecast.models import (
    parse_bytes,
    parse_compute,
    parse_deaths,
    parse_network,
    parse_pauses,
    parse_seconds,
)
from paceline.forecast.plan import Plan
from paceline.forecast.show import check_picture, draw_forecasts, table_of, text_of
from paceline.launch.job import JobDir

T = TypeVar("T")


def simulate(  # noqa: PLR0913  (the command line has one parameter for each option)
    *,
    trainers: Annotated[int, typer.Option(help="Trainers.", show_default="1")] = 1,
    servers: Annotated[int, typer.Option(help="Servers.", show_default="1")] = 1,
    pace: Annotated[
        list[str] | None,
        typer.Option(help="Pace; several are compared.", show_default="sync"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Batches of each trainer.", show_default="100"),
    ] = None,
    records: Annotated[
        str | None, typer.Option(help="Records of the data, instead of --steps.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs.", show_default="1")] = 1,
    batch_size: Annotated[
        int, typer.Option(help="Records of a batch.", show_default="1")
    ] = 1,
    compute: Annotated[
        str | None,
        typer.Option(
            help="Seconds of computing a batch: fixed:0.1, lognormal:0.1,0.3, "
            "straggler:0.1,4,0.2, slow:0.1,4,1, quantiles:0.1,0.2,0.4.",
            show_default="lognormal:0.1,0.3",
        ),
    ] = None,
    spread: Annotated[
        float,
        typer.Option(help="How much trainers differ for ever: sigma.", show_default="0"),
    ] = 0.0,
    pause: Annotated[
        str | None, typer.Option(help="Probability before a batch, mean: 0.01,5s; off.")
    ] = None,
    network: Annotated[
        str,
        typer.Option(help="Latency, bandwidth.", show_default="100us,10Gbit"),
    ] = "100us,10Gbit",
    parameters: Annotated[
        str, typer.Option(help="Bytes of dense parameters: 25MB.", show_default="0")
    ] = "0",
    rows: Annotated[
        str, typer.Option(help="Bytes of a batch's rows: 360KB.", show_default="0")
    ] = "0",
    apply: Annotated[
        str | None,
        typer.Option(help="One server applies an update to all parameters: 2ms."),
    ] = None,
    deaths: Annotated[
        str | None,
        typer.Option(help="Mean life of a process, until it is back: 10h,30s; off."),
    ] = None,
    checkpoint_every: Annotated[
        str, typer.Option(help="Between checkpoints: 60s, off.", show_default="60s")
    ] = "60s",
    seed: Annotated[int, typer.Option(help="Seed of all draws.", show_default="0")] = 0,
    fit: Annotated[
        Path | None,
        typer.Option(help="Job folder or events.jsonl: as that run was."),
    ] = None,
    advise: Annotated[
        bool,
        typer.Option(
            "--advise", help="Try other numbers of servers and trainers; say what pays."
        ),
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--draw", help="Draw it: a .png or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Forecast a job: how fast, what waits, how old pushes are, what is busy."""
    if fit is not None and compute is not None:
        raise UsageError("--compute and --fit both say how long a batch takes: give one")
    if records is not None and steps is not None:
        raise UsageError("--steps and --records both say how much there is: give one")
    if records is None and epochs != 1:
        raise UsageError("--epochs: --steps is a sample of an epoch; give --records, too")
    if picture is not None:
        check_picture(picture)
    fitted = None if fit is None else _fitted(fit)
    every = parse_every("--checkpoint-every", checkpoint_every)
    if every.steps:
        raise UsageError("--checkpoint-every: a forecast takes seconds, or off")
    plan = Plan(
        trainers=trainers,
        servers=servers,
        steps=100 if steps is None else steps,
        records=0 if records is None else _count("--records", records),
        epochs=epochs,
        batch_size=batch_size,
        compute=parse_compute("--compute", compute or "lognormal:0.1,0.3")
        if fitted is None
        else fitted.compute,
        spread=spread,
        pauses=_given(pause, fitted and fitted.pauses, "--pause", parse_pauses),
        network=parse_network("--network", network),
        parameter_bytes=parse_bytes("--parameters", parameters),
        row_bytes=parse_bytes("--rows", rows),
        apply_s=None if apply is None else parse_seconds("--apply", apply),
        deaths=_given(deaths, fitted and fitted.deaths, "--deaths", parse_deaths),
        cut_every_s=every.seconds,
        seed=seed,
    )
    paces = [parse_pace(text) for text in pace or ["sync"]]
    gc.disable()  # millions of messages, none in a circle: looking at them doubles the time
    found = [forecast(msgspec.structs.replace(plan, pace=one)) for one in paces]
    advice = advise_on(plan, paces, _tell) if advise else None
    if picture is not None:
        draw_forecasts(found, picture)
    if as_json:
        print(json.dumps(_as_dict(found, advice)))
        return
    print(text_of(table_of(found)))
    if advice is not None:
        print("\n" + "\n".join(f"* {sentence}" for sentence in advice.sentences))


def _tell(said: str) -> None:
    print(said, file=sys.stderr)


def _fitted(run: Path) -> Fitted:
    events = JobDir(run).events if run.is_dir() else run
    try:
        fitted = fit_run(event_lines(events), str(events))
    except OSError as error:
        raise UsageError(f"--fit: cannot read {events}: {error.strerror}") from error
    _tell(f"{events}: {fitted}")
    return fitted


def _given(
    text: str | None, fitted: T | None, option: str, parse: Callable[[str, str], T]
) -> T | None:
    """What an option says, else what was fitted; ``off`` is neither."""
    if text is None:
        return fitted
    return None if text == "off" else parse(option, text)


def _count(option: str, text: str) -> int:
    number = float(text) if text.replace("e", "").replace(".", "").isdecimal() else 0.0
    if number < 1 or not number.is_integer():
        raise UsageError(f"{option}: expected a whole number like 1000000, got {text!r}")
    return int(number)


def _as_dict(found: list[Forecast], advice: Advice | None) -> dict[str, Any]:
    said: dict[str, Any] = {"forecasts": msgspec.to_builtins(found)}
    if advice is not None:
        said["advice"] = advice.sentences
        said["tried"] = msgspec.to_builtins(advice.tried)
    return said
