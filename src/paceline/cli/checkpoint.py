"""``paceline checkpoint list DIR``, or ``verify``, ``export``: what a job has saved.

DIR is a job folder, or the folder or URL where cuts lie. Nothing is changed there, and
torch is not needed: numbers stay bytes. Cuts of another job in that place are listed, and
neither verified nor exported. ``take`` asks a job that runs for one more.
"""

import json
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.options import JoinOption, PlainOption, job_said
from paceline.errors import UsageError
from paceline.launch.job import (
    JobDir,
    call_until_done,
    find_running,
    shown_name,
)
from paceline.messages.trainer import Saved
from paceline.messages.watching import TakeCut
from paceline.store.blobs import BlobStore
from paceline.store.cuts import (
    Cut,
    ForeignCut,
    Manifest,
    Owner,
    foreign_cuts,
    list_cuts,
    newest_claim,
    newest_good_cut,
    owner_of,
    plan_export,
    verify_cut,
)
from paceline.store.export import export_cut, rows_name
from paceline.store.listing import CutView, view_cut
from paceline.timing import SystemClock
from paceline.watch.summary import EXIT_CODES, Ending

checkpoint = typer.Typer(
    name="checkpoint",
    help="List, verify and export what a job has saved; or have it save now.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Place = Annotated[str, typer.Argument(help="Job folder, or folder or URL of checkpoints.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@checkpoint.command("list")
def list_command(
    place: _Place,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at names and sizes only.")
    ] = False,
    as_json: _AsJson = False,
) -> None:
    """Show all cuts, oldest first, and which of them are whole."""
    store, foreign = open_cuts(place)
    others = {one.cut for one in foreign}
    cuts = list_cuts(store)
    views = [view_cut(store, cut, read_all=not quick and cut not in others) for cut in cuts]
    unharmed = _WHOLE if not quick else "not read"
    states = [_OTHERS if cut in others else unharmed for cut in cuts]
    _show(views, states, as_json=as_json)


@checkpoint.command()
def take(
    job_dir: Annotated[
        Path | None, typer.Argument(help="The job folder; default: the one that runs.")
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
) -> None:
    """Have a running job take a checkpoint now; returns when it is committed."""
    job = job_said(job_dir, join, find_running, is_plain=plain)
    wish = TakeCut(wish=secrets.token_hex(8))
    saved = call_until_done(
        job, wish, SystemClock(), lambda why: print(f"paceline: {why}", file=sys.stderr)
    )
    assert isinstance(saved, Saved)
    print(f"{shown_name(job)}: saved as cut {saved.cut}")


@checkpoint.command()
def verify(
    place: _Place,
    *,
    cut: Annotated[int | None, typer.Option(help="One cut; default all.")] = None,
    as_json: _AsJson = False,
) -> None:
    """Read every byte of all cuts, or of one; exit code 1 if anything is damaged."""
    place_of_cuts = open_cuts(place)
    _say_passed_over(place_of_cuts)
    chosen = _chosen(place_of_cuts, cut)
    views = [view_cut(place_of_cuts.store, one, read_all=True) for one in chosen]
    _show(views, [_WHOLE] * len(views), as_json=as_json)
    if any(view.problem is not None for view in views):
        raise typer.Exit(EXIT_CODES[Ending.FAILED])


@checkpoint.command()
def export(
    place: _Place,
    *,
    out: Annotated[str, typer.Option(help="The file to make, NAME.safetensors.")],
    cut: Annotated[
        int | None, typer.Option(help="Its number; default the newest whole cut.")
    ] = None,
    part: Annotated[
        int | None, typer.Option(help="One part (session.share call); default all.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Write a plain state_dict in safetensors; rows of embeddings in a second file."""
    store = (cuts := open_cuts(place)).store
    manifest = _manifest(cuts, cut)
    folder, _, name = out.rpartition("/")
    to = BlobStore(folder if "://" in folder else str(Path(folder or ".").absolute()))
    plan = plan_export(manifest.plans, part)
    taken = [one for one in (name, rows_name(name)) if to.exists(one)]
    if taken:
        raise UsageError(f"--out: {to.url}/{taken[0]} is there already; name another file")
    made = export_cut(store, manifest, plan, to, name)
    if not plan.is_strict:
        print(_NOT_STRICT, file=sys.stderr)
    view = {
        "cut": manifest.cut,
        "timeline": manifest.timeline,
        "records": manifest.records,
        "file": f"{to.url}/{made.dense.name}",
        "tensors": made.num_tensors,
        "rows_file": f"{to.url}/{made.rows.name}" if made.rows is not None else None,
        "rows": made.num_rows,
    }
    if as_json:
        print(json.dumps(view))
        return
    print(f"cut {manifest.cut}: {made.num_tensors} tensors in {view['file']}")
    for table, count in made.num_rows.items():
        print(f"  {count:,} rows of {table!r} in {view['rows_file']}")


class PlaceOfCuts(NamedTuple):
    """Where cuts lie, and which of them are not of the job that is looked at."""

    store: BlobStore
    foreign: tuple[ForeignCut, ...]

    def own(self) -> list[Cut]:
        """The committed cuts of the job, oldest first."""
        others = {one.cut for one in self.foreign}
        return [cut for cut in list_cuts(self.store) if cut not in others]


def open_cuts(place: str) -> PlaceOfCuts:
    """Where the cuts of a job lie, from its folder or told itself.

    Of a place that is told itself, the job is the one that has claimed it; if none has, all
    cuts are taken for those of one job.

    Raises:
        UsageError: there is no such folder, or no such kind of URL.
    """
    if "://" in place:
        return _claimed_cuts(BlobStore(place))
    folder = Path(place).absolute()
    job = JobDir(folder)
    if job.config.exists():
        config = job.read_config()
        store = BlobStore(job.cuts_of(config))
        return PlaceOfCuts(store, foreign_cuts(store, owner_of(config)))
    if not folder.is_dir():
        raise UsageError(f"there is no folder {place}")
    store = BlobStore(str(folder))
    if not list_cuts(store):
        raise UsageError(
            f"{place} is no job folder (it has no {job.config.name}), and no cut lies in it"
        )
    return _claimed_cuts(store)


def _claimed_cuts(store: BlobStore) -> PlaceOfCuts:
    claim = newest_claim(store)
    if claim is None:
        return PlaceOfCuts(store, ())
    is_in_its_folder = store.local == JobDir(Path(claim.folder)).checkpoints
    owner = Owner(claim.job, has_unnamed=is_in_its_folder)
    return PlaceOfCuts(store, foreign_cuts(store, owner))


_WHOLE = "whole"
_OTHERS = "another job's"
_NOT_STRICT = (
    "paceline: the job was begun by a version that did not keep frozen parameters; if the "
    "model has any, load them first and this file with strict=False"
)


def _say_passed_over(place: PlaceOfCuts) -> None:
    for _, why in place.foreign:
        print(f"paceline: passed over: {why}", file=sys.stderr)


def _chosen(place: PlaceOfCuts, number: int | None) -> list[Cut]:
    store, cuts = place.store, place.own()
    chosen = [cut for cut in cuts if number is None or cut.cut == number]
    if not chosen:
        known = ", ".join(str(cut.cut) for cut in cuts) or "none at all"
        raise UsageError(
            f"{store.url} has the cuts {known}, got --cut {number}"
            if number is not None
            else f"{store.url} holds no cut yet"
        )
    return chosen


def _manifest(place: PlaceOfCuts, number: int | None) -> Manifest:
    """The newest cut of this number, or the newest whole one; says what is passed over."""
    store = place.store
    _say_passed_over(place)
    if number is not None:
        return verify_cut(store, _chosen(place, number)[-1].folder)
    good = newest_good_cut(store, spared={one.cut.folder for one in place.foreign})
    for problem in good.skipped:
        print(f"paceline: passed over: {problem}", file=sys.stderr)
    if good.manifest is None:
        raise UsageError(f"{store.url} holds no cut yet")
    return good.manifest


def _show(views: list[CutView], unharmed: list[str], *, as_json: bool) -> None:
    states = [
        "damaged" if view.problem is not None else state
        for view, state in zip(views, unharmed, strict=True)
    ]
    if as_json:
        cuts = [
            {**view._asdict(), "state": state}
            for view, state in zip(views, states, strict=True)
        ]
        print(json.dumps({"cuts": cuts}))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("cut", "timeline", "records", "steps", "taken", "bytes", "state"):
        table.add_column(name, justify="left" if name in {"taken", "state"} else "right")
    is_mixed = len({view.job for view in views}) > 1
    if is_mixed:
        table.add_column("job")
    for view, state in zip(views, states, strict=True):
        numbers = (view.records, view.steps)
        records, steps = ("?" if n is None else f"{n:,}" for n in numbers)
        size = "?" if view.bytes is None else f"{view.bytes:,}"
        row = (str(view.cut), str(view.timeline), records, steps, _moment(view.created))
        table.add_row(*row, size, state, *([view.job or "?"] if is_mixed else []))
    Console(emoji=False).print(table)
    for view in views:
        if view.problem is not None:
            print(f"damaged: {view.problem}")


def _moment(created: float | None) -> str:
    if created is None:
        return "?"
    return f"{datetime.fromtimestamp(created, tz=UTC).astimezone():%Y-%m-%d %H:%M:%S}"
