"""A job of real processes, its dashboard, and a real browser that looks at it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paceline.dashboard import Observer
from paceline.launch.job import JobDir
from paceline.messages.watching import JobStatus
from paceline.timing import SystemClock

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCRIPT = Path(__file__).with_name("uneven_job.py")
CHROMIUM = "/usr/bin/chromium"
SEEN_MS = 2000  # the goal, on a machine that has time
BUSY_MS = 15_000  # so long a browser on a busy machine may take; it is told
LIMIT_S = 90.0


class Shown(NamedTuple):
    """A running job in a browser."""

    job: JobDir
    browser: "Browser"
    page: "Page"
    address: str
    wrong: list[str]  # what the browser complains about
    requests: list[str]

    def sees(self, selector: str, text: str, within_ms: float = BUSY_MS) -> None:
        """Somewhere there is a text, soon enough."""
        place = self.page.locator(selector).filter(has_text=text).first
        begun_s = time.monotonic()
        place.wait_for(timeout=within_ms)
        took_ms = 1e3 * (time.monotonic() - begun_s)
        if took_ms > SEEN_MS:
            sys.stderr.write(f"{text!r} took {took_ms:.0f} ms, not {SEEN_MS}\n")

    def asks(self, kind: str, question: str) -> None:
        """Press a button, and say yes to what it asks."""
        self.page.locator(f"[data-ask={kind}]").click()
        self.sees("#sure-text", question)
        self.page.locator("#sure-yes").click()

    def pid(self, role: str) -> int:
        """The process of a role."""
        return pid_of(self.job, role)

    def until_back(self, role: str) -> None:
        """Another process has the role."""

        def is_back() -> bool:
            states = {one.id: one.state for one in status_of(self.job).processes}
            return states.get(role) in {"joined", "ready", "waiting"}

        until(f"another {role}", is_back)


def status_of(job: JobDir) -> JobStatus:
    """How a job stands."""
    return Observer(job, "", SystemClock())._status()


def pid_of(job: JobDir, role: str) -> int:
    """The process of a role."""
    [pid] = [one.pid for one in status_of(job).processes if one.id == role]
    return pid


def words(*arguments: object) -> list[str]:
    """A command line of this very paceline."""
    return [sys.executable, "-m", "paceline.cli.main", *map(str, arguments)]


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait for processes of the system, within a bound."""
    deadline_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"{what} did not come"
        time.sleep(0.05)


@contextlib.contextmanager
def boarded(folder: Path, name: str, *options: object) -> Iterator[tuple[JobDir, str]]:
    """A job of a name, and the address of its dashboard, until it is interrupted."""
    job = JobDir(folder / name)
    with ended_together() as processes:
        processes.append(started(job, trainers=4, servers=2))
        yield job, board(job.path, folder / "said", processes, *options)


@contextlib.contextmanager
def ended_together() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of the block, interrupted at its end, the last one first."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        end(processes[::-1], signal.SIGINT, LIMIT_S)


def started(job: JobDir, trainers: int, servers: int) -> subprocess.Popen[bytes]:
    """The launcher of a job."""
    sizes = ("--trainers", trainers, "--servers", servers, "--checkpoint-every", "5s")
    return subprocess.Popen(
        words("run", *sizes, "--job-dir", job.path, SCRIPT),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )


def board(
    path: Path, said: Path, processes: list[subprocess.Popen[bytes]], *options: object
) -> str:
    """The address of a dashboard, which is one of the processes, once there is a job."""
    until("the job", lambda: any(path.glob("**/events.jsonl")))
    with said.open("wb") as output:
        processes.append(
            subprocess.Popen(words("dashboard", *options, path), stderr=output)
        )
    until("the dashboard", lambda: "token=" in said.read_text())
    return said.read_text().split(" is shown at ")[1].strip()


def end(
    processes: Sequence[subprocess.Popen[bytes]], how: signal.Signals, within_s: float
) -> None:
    """Ask processes to end; who does not is killed, and that is an error."""
    for process in processes:
        process.send_signal(how)
    late = []
    for process in processes:
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late.append(process.args)
    assert not late, late


@contextlib.contextmanager
def showing(folder: Path, name: str) -> Iterator[Shown]:
    """A job of a name in a browser."""
    with boarded(folder, name) as (job, address), browsing(job, address) as shown:
        yield shown


@contextlib.contextmanager
def browsing(job: JobDir, address: str) -> Iterator[Shown]:
    """A browser at the address of a dashboard."""
    from playwright import sync_api as playwright  # noqa: PLC0415  (around)

    wrong, requests = list[str](), list[str]()
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page()
        page.on("console", lambda line: wrong.append(line.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        try:
            yield Shown(job, browser, page, address, wrong, requests)
        finally:
            browser.close()
