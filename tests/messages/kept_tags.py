"""The names by which things are told on the wire, in the journal and in manifests.

::

    python -m tests.messages.kept_tags      writes tests/kept/tags.txt anew

A section begins with what it is and its version. On the wire a line is a link with its
tags; what lies on disk has a line for each struct: a tag, or ``(Name)`` where there is
none and the name is free, and its fields, with ``?`` where one may be missing. Those in
``[]`` are written without names, in this order.
``docs/releasing.md`` has the rule.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from msgspec import inspect

from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.coordinator.durable.queue import Queue
from paceline.coordinator.storage import StateSaved
from paceline.messages.data import DataReply, DataRequest
from paceline.messages.peers import PeerReply, PeerRequest
from paceline.messages.server import Order, ServerReport
from paceline.messages.trainer import TrainerReply, TrainerRequest
from paceline.messages.watching import (
    AskStatus,
    ChangePace,
    Interrupt,
    JobStatus,
    LauncherOrders,
    LauncherReport,
    Scale,
    TakeCut,
)
from paceline.store.cuts import manifest
from paceline.store.journal import FORMAT
from paceline.transport.frames import PROTOCOL_VERSION

FILE = Path(__file__).parents[1] / "kept" / "tags.txt"
LINKS = {
    "trainer asks coordinator": TrainerRequest,
    "coordinator answers trainer": TrainerReply,
    "trainer asks server": DataRequest,
    "server answers trainer": DataReply,
    "trainer asks trainer": PeerRequest,
    "trainer answers trainer": PeerReply,
    "server reports": ServerReport,
    "coordinator orders": Order,
    "launcher and coordinator": LauncherReport | LauncherOrders,
    "operator and coordinator": AskStatus
    | JobStatus
    | Scale
    | ChangePace
    | TakeCut
    | Interrupt,
}
ON_DISK = {
    "journal": (FORMAT, (AnyOutcome, StateSaved, Queue)),
    "manifest": (manifest.FORMAT, (manifest.Manifest,)),
}
Sections = dict[str, tuple[int, frozenset[str]]]  # {section: (version, lines)}


def now() -> Sections:
    """What the code says."""
    found: Sections = {
        section: (version, frozenset(_structs(kinds)))
        for section, (version, kinds) in ON_DISK.items()
    }
    tags = {f"{link}: {tag}" for link, kind in LINKS.items() for tag in _tags(kind)}
    return found | {"wire": (PROTOCOL_VERSION, frozenset(tags))}


def _tags(kind: Any) -> Iterator[str]:
    for member in get_args(kind) or (kind,):
        told = inspect.type_info(member)
        assert isinstance(told, inspect.StructType)
        yield str(told.tag)


def _structs(kinds: tuple[Any, ...]) -> Iterator[str]:
    todo: list[inspect.Type] = [inspect.type_info(kind) for kind in kinds]
    seen: set[type] = set()
    while todo:
        told = todo.pop()
        if isinstance(told, inspect.StructType | inspect.NamedTupleType):
            if told.cls in seen:
                continue
            seen.add(told.cls)
            yield _line(told)
            todo += [field.type for field in told.fields]
        for name in ("types", "item_types"):
            todo += getattr(told, name, ())
        for name in ("item_type", "key_type", "value_type"):
            if isinstance(inner := getattr(told, name, None), inspect.Type):
                todo.append(inner)


def _line(told: "inspect.StructType | inspect.NamedTupleType") -> str:
    fields = [field.encode_name + "?" * (not field.required) for field in told.fields]
    tag = getattr(told, "tag", None) or f"({told.cls.__name__})"
    is_named = isinstance(told, inspect.StructType) and not told.array_like
    listed = ", ".join(sorted(fields)) if is_named else f"[{', '.join(fields)}]"
    return f"{tag}: {listed}".rstrip()


def kept() -> Sections:
    """What the file says."""
    found: dict[str, tuple[int, set[str]]] = {}
    lines: set[str] = set()
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            section, version = line.removeprefix("# ").split()
            lines = set()
            found[section] = (int(version), lines)
        elif line:
            lines.add(line)
    return {section: (version, frozenset(ls)) for section, (version, ls) in found.items()}


def broken(before: Sections, after: Sections) -> list[str]:
    """Lines of before whose bytes would be read otherwise now, or not at all.

    None are those of a section whose version has grown.
    """
    return [
        f"{section} {version}: {line}"
        for section, (version, lines) in before.items()
        for line in sorted(lines - after[section][1])
        if after[section][0] == version
        and not any(reads(line_now, line) for line_now in after[section][1])
    ]


def reads(now_told: str, before: str) -> bool:
    """Whether a struct as it is told now reads what it wrote as it was told before.

    A field may come if it may be missing, none may go, and a name without a tag is free.
    """
    head, _, fields = before.partition(":")
    head_now, _, fields_now = now_told.partition(":")
    if head in LINKS:
        return now_told == before
    is_free = head.startswith("(") and head_now.startswith("(")
    if head != head_now and not (is_free and fields == fields_now):
        return False
    if "[" in fields or "[" in fields_now:
        more = fields_now.removeprefix(fields.rstrip("]")).strip(", ]")
        has_all = fields_now.startswith(fields.rstrip("]"))
        return has_all and all(name.endswith("?") for name in more.split(", ") if more)
    written, known = _named(fields), _named(fields_now)
    is_missed = any(known.get(name) == "" for name in written if written[name])
    return (
        written.keys() <= known.keys()
        and not is_missed
        and all(known[name] for name in known.keys() - written.keys())
    )


def _named(fields: str) -> dict[str, str]:
    """{field: ``?`` if it may be missing}."""
    names = [name.strip() for name in fields.split(",") if name.strip()]
    return {name.rstrip("?"): "?" if name.endswith("?") else "" for name in names}


def text(sections: Sections) -> str:
    """The file."""
    return "\n".join(
        line
        for section, (version, lines) in sorted(sections.items())
        for line in (f"# {section} {version}", *sorted(lines), "")
    )


if __name__ == "__main__":
    if FILE.exists() and (lost := broken(kept(), now())):
        sys.exit("\n".join(["these are lost: see docs/releasing.md", *lost]))
    FILE.write_text(text(now()), encoding="utf-8")
