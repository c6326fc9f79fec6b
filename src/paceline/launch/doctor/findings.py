"""What machines have found says, and what to do about it.

What is *wrong* would end a job, or keep it from beginning; the rest is told.

Pure.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paceline.errors import LARGE_DO_NOT_PASS
from paceline.ids import first_few
from paceline.launch.doctor.examination import Examinee

CLOCKS_S = 1.0
FEW_FILES = 1024
LITTLE_BYTES = 1 << 30  # of memory, and of the disk
SLOW_SHARE = 0.25  # of the fastest way


class Finding(NamedTuple):
    """Something to know, in a sentence or two."""

    text: str
    is_wrong: bool = True


def findings(
    examinees: Sequence[Examinee], wanted: int, checkpoints: str = ""
) -> list[Finding]:
    """What is to be told, what is wrong first; nothing: all is well."""
    found = [
        *_missing(examinees, wanted),
        *_ways(examinees),
        *_files(examinees, checkpoints),
        *_versions(examinees),
        *_machines(examinees),
        *_clocks(examinees),
    ]
    return sorted(found, key=lambda finding: not finding.is_wrong)


def _missing(examinees: Sequence[Examinee], wanted: int) -> Iterable[Finding]:
    if len(examinees) < wanted:
        names = ", ".join(one.name for one in examinees)
        yield Finding(f"{len(examinees)} of {wanted} machines have come: {names}")
    for one in examinees:
        if one.gone:
            yield Finding(f"{one.name} ({one.address}) was lost meanwhile: {one.gone}")


def _ways(examinees: Sequence[Examinee]) -> Iterable[Finding]:
    for to in examinees:
        tried = [(one, one.probes[to.id]) for one in examinees if to.id in one.probes]
        lost = [(one.name, result.error) for one, result in tried if result.error]
        if lost:
            who, verb = _named([name for name, _ in lost], "does", "do")
            yield Finding(
                f"{who} {verb} not reach {to.name}: {lost[0][1]}; open the ports of all "
                "machines to each other, or name an address that all reach with --advertise"
            )
        holes = [(one.name, r.large_error) for one, r in tried if r.large_error]
        if holes:
            who, _ = _named([name for name, _ in holes])
            yield Finding(f"from {who} to {to.name} {LARGE_DO_NOT_PASS} ({holes[0][1]})")
    yield from _slow(examinees)


def _slow(examinees: Sequence[Examinee]) -> Iterable[Finding]:
    rates = {
        (one.name, to.name): result.bytes_per_s
        for one in examinees
        for to in examinees
        if (result := one.probes.get(to.id)) is not None and result.bytes_per_s
    }
    best = max(rates.values(), default=0.0)
    slow = sorted((rate, way) for way, rate in rates.items() if rate < SLOW_SHARE * best)
    if slow:
        rate, (sender, receiver) = slow[0]
        yield Finding(
            f"{len(slow)} of {len(rates)} ways are less than a quarter as fast as the "
            f"fastest ({best / 1e6:,.0f} MB/s), the slowest from {sender} to {receiver} "
            f"({rate / 1e6:,.1f} MB/s)",
            is_wrong=False,
        )


def _files(examinees: Sequence[Examinee], checkpoints: str) -> Iterable[Finding]:
    for writer in examinees:
        if why := writer.files.get(writer.file, ""):
            yield Finding(f"{writer.name} cannot write to {checkpoints}: {why}")
        unread = [
            (one.name, one.files[writer.file])
            for one in examinees
            if one is not writer and one.files.get(writer.file)
        ]
        if unread:
            who, verb = _named([name for name, _ in unread], "does", "do")
            yield Finding(
                f"{who} {verb} not find what {writer.name} has written to {checkpoints}: "
                f"{unread[0][1]}; name a place with --checkpoints that all machines reach, "
                "such as a shared folder or an s3:// URL"
            )


def _versions(examinees: Sequence[Examinee]) -> Iterable[Finding]:
    facts = [(one.name, one.facts) for one in examinees if one.facts is not None]
    for name in {name: None for _, own in facts for name in own.versions}:
        by_version: dict[str, list[str]] = {}
        for machine, own in facts:
            by_version.setdefault(own.versions.get(name, "none"), []).append(machine)
        if len(by_version) > 1:
            told = "; ".join(f"{v} on {', '.join(on)}" for v, on in by_version.items())
            is_wrong = name == "paceline"
            then = (
                "install the same version on all machines"
                if is_wrong
                else "results may differ"
            )
            yield Finding(f"versions of {name} differ ({told}): {then}", is_wrong=is_wrong)


def _machines(examinees: Sequence[Examinee]) -> Iterable[Finding]:
    for one in examinees:
        if one.facts is None:
            continue
        if one.facts.lacks:
            yield Finding(f"{one.name}: {one.facts.lacks}")
        if one.facts.num_files < FEW_FILES:
            yield Finding(
                f"{one.name}: a process may have {one.facts.num_files} files open, and "
                f"each connection is one: ulimit -n {FEW_FILES}",
                is_wrong=False,
            )
        for what, free in (
            ("memory", one.facts.memory_bytes),
            ("of the disk of its working folder", one.facts.disk_bytes),
        ):
            if free < LITTLE_BYTES:
                told = f"{free / 1e6:,.0f} MB {what} are free"
                yield Finding(f"{one.name}: only {told}", is_wrong=False)


def _clocks(examinees: Sequence[Examinee]) -> Iterable[Finding]:
    clocks = [(one.clock_s, one.name) for one in examinees if one.clock_s is not None]
    if not clocks or max(clocks)[0] - min(clocks)[0] < CLOCKS_S:
        return
    (behind_s, behind), (ahead_s, ahead) = min(clocks), max(clocks)
    yield Finding(
        f"the clock of {ahead} is {ahead_s - behind_s:,.1f} s ahead of that of {behind}: "
        "nothing is decided by it, and times in logs and files differ",
        is_wrong=False,
    )


def _named(names: Sequence[str], one: str = "", many: str = "") -> tuple[str, str]:
    """Up to four names, and the verb that goes with so many."""
    return first_few(names), one if len(names) == 1 else many
