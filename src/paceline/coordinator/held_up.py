"""What holds up all who ask for work, and whom it waits for.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.ids import COORDINATOR, server_id
from paceline.messages import ServerReport, Wait, wait_for
from paceline.messages.waits import MOST_NAMED, listed


def pause_of_all(book: Book) -> Wait | None:
    """Why nobody works just now, if the pace is to change; None if it is not."""
    state = book.durable
    if book.wish is None or not state.has_started or not book.is_training():
        return None
    holders = sorted(state.queue.first_holders(MOST_NAMED))
    count = state.queue.num_holders()
    paces = ", ".join(sorted({str(pace) for pace in book.wish.paces.values()}))
    waits = f"; it waits for {listed(holders, count)} to give tasks back" if holders else ""
    reason = f"the pace changes to {paces}{waits}"
    return Wait("pace", reason, tuple(holders), count - len(holders))


def wait_of_all(book: Book, *, for_pace: bool = False) -> Wait | None:
    """Why none is leased now (``for_pace``: but its change); None if one can be."""
    state = book.durable
    if state.broken is not None:
        return wait_for("coordinator", f"the job has failed: {state.broken}", [COORDINATOR])
    if len(state.servers) < book.config.servers:
        missing = book.config.servers - len(state.servers)
        reason = f"{missing} of {book.config.servers} servers are not there yet"
        return wait_for("servers", reason, awaited_servers(book))
    if book.sought is not None:
        reason = f"{book.sought} cannot be read; the newest older whole cut is sought"
        return wait_for("cut", reason, [COORDINATOR])
    if state.repaced is not None and not book.servers_ready():
        return wait_for("pace", "servers take over the new pace", awaited_servers(book))
    if state.is_returning or not book.servers_ready():
        reason = f"servers return to cut {state.cut.cut if state.cut else 0}"
        return wait_for("servers", reason, awaited_servers(book))
    if not book.parts_ready():
        return wait_for("values", "a shared part has no values yet", _uploaders(book))
    if not book.is_cut_whole():
        return wait_for("cut", "the first cut is being taken", takers(book))
    if state.stage_spec() is None:
        stage = state.queue.stage
        late = [t for t in state.trainers if book.asked_stage.get(t, -1) < stage]
        return wait_for("stage", f"no trainer has told the data of stage {stage}", late)
    return None if for_pace else pause_of_all(book)


def awaited_servers(book: Book) -> list[str]:
    """Servers of the job that are not there, or not ready on this timeline."""
    live, state = book.durable.servers, book.durable
    awaited = []
    for server in (server_id(n) for n in range(book.config.servers)):
        report = book.reports.get(server)
        is_here = report is not None and report.incarnation == live.get(server)
        if not (is_here and _is_ready(report, state.timeline)):
            awaited.append(server)
    return awaited


def _is_ready(report: ServerReport | None, timeline: int) -> bool:
    return report is not None and report.timeline == timeline and report.ready


def wait_for_fences(book: Book) -> Wait:
    """Servers have not all fenced who is lost."""
    told = [book.fences.get(incarnation, {}) for incarnation in book.durable.settling]
    servers = (server_id(n) for n in range(book.config.servers))
    late = [server for server in servers if any(server not in one for one in told)]
    return wait_for("servers", "servers fence a lost trainer", late)


def takers(book: Book) -> list[str]:
    """Who takes the open cut, as far as it is not done."""
    servers = book.open_cut.missing() if book.open_cut is not None else []
    return servers or [COORDINATOR]


def _uploaders(book: Book) -> list[str]:
    """Trainers that send the first values of parts that have none."""
    names = book.durable.incarnations()
    parts = book.durable.parts.values()
    found = {names.get(part.uploader) for part in parts if not part.is_ready}
    return sorted(name for name in found if name is not None)
