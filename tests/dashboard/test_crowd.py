"""A thousand trainers: the page goes on moving, and the coordinator hardly notices."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchmarks.scale.crowd import Crowd, LightServer, wait_at_work
from benchmarks.scale.lines import RUN
from benchmarks.scale.process import measured_process
from paceline.config import Async
from paceline.dashboard import Observer, open_dashboard, serve
from paceline.dashboard.observer import ask_status
from paceline.events import EventLog
from paceline.launch.job import JobDir, RunFile
from paceline.messages.server import SlotLoad
from paceline.messages.shared import Lease, SpentTime, StageSpec
from paceline.messages.waits import Wait
from paceline.messages.watching import AskStatus, JobStatus, ProcessStatus
from paceline.timing import SystemClock
from tests.coordinator.conftest import Job
from tests.dashboard.showing import CHROMIUM
from tests.dashboard.test_picture import standing, trainer

NUM = 1000
FRAME_MS = 100
SHARE_OF_A_CORE = 0.02  # of a question, which a dashboard asks once a second
QUESTIONS = 30
MOST_BYTES = 100_000  # of a beat, without curves


def crowd(at_s: float) -> JobStatus:
    """A thousand trainers, of which one is slow, and four servers with 64 slots each."""
    wait = Wait("round", "its pushes are missing", ("trainer-500",), since_s=2.0)
    trainers = [
        msgspec.structs.replace(
            trainer(n, clock=int(at_s), wait=None if n % 3 else wait),
            spent=SpentTime(0.1 * at_s, 0.3 * at_s, 0.2 * at_s, 0.4 * at_s),
        )
        for n in range(NUM)
    ]
    servers = [
        ProcessStatus(
            "server",
            f"server-{n}",
            1,
            n,
            f"host-{n}",
            "",
            "ready",
            0,
            0,
            load=tuple(SlotLoad(slot, slot / 80 * at_s, slot) for slot in range(64)),
            counters={"part-0.gradient_bytes_sent": int(1e6 * at_s)},
        )
        for n in range(4)
    ]
    return standing(*trainers, *servers)


def write_events(events: EventLog, rounds: int) -> None:
    """All have joined; a few have died; all come to each round."""
    for n in range(NUM):
        events.write("TrainerJoined", {"trainer": f"trainer-{n}", "incarnation": n})
    for n in range(0, NUM, 20):
        why = {"kind": "exited", "reason": "it ended with signal 9"}
        events.write("TrainerLost", {"trainer": f"trainer-{n}", **why})
    for number in range(rounds):
        came_s = [0.001 * ((7 * n + number) % 97) for n in range(NUM)]
        who = [{"trainer": f"trainer-{n}"} for n in range(NUM)]
        told = {"part": 0, "round": number, "contributions": who, "came_s": came_s}
        events.write("RoundCommitted", told)
        events.write("log", {"trainer": "trainer-0", "numbers": {"loss": 1 / (1 + number)}})


# How long the page takes for a beat, its layout with it, each of so many times.
_FRAMES = """new Promise((done) => {
  document.addEventListener("beat", ({ detail: now }) => setTimeout(() => {
    const took = [];
    while (took.length < 15) {
      const began = performance.now();
      show(now, {});
      document.body.getBoundingClientRect();
      took.push(performance.now() - began);
    }
    done(took);
  }), { once: true });
})"""


@pytest.fixture
def observer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Observer]:
    clock = SystemClock()
    write_events(EventLog(JobDir(tmp_path).events), 80)
    monkeypatch.setattr(Observer, "_status", lambda _: crowd(clock.now_s()))
    made = Observer(JobDir(tmp_path), "crowd", clock)
    yield made
    made.close()


def test_what_pages_are_sent_stays_small(observer: Observer) -> None:
    observer.ask()
    observer.look()

    now = json.loads(observer.beat.now)
    assert now["rounds"]
    assert now["more_roles"]
    assert len(observer.beat.now) < MOST_BYTES


def test_the_coordinator_spends_hardly_anything_on_who_looks() -> None:
    """One question a second, however many pages are open."""
    names = [f"trainer-{n}" for n in range(NUM)]
    job = Job(trainers=NUM, servers=4, pace=Async(), is_checked=False)
    job.open(*names)
    for name in names[:50]:
        lease = job.lease(name)
        if isinstance(lease, Lease):
            job.tick(name, lease, 0, 0, spent=SpentTime(1.0, 2.0, 3.0, 4.0))
    took_s = []
    for _ in range(10):
        began_s = time.process_time()
        status = job.get("observer", AskStatus())
        assert isinstance(status, JobStatus)
        msgspec.msgpack.encode(status)
        took_s.append(time.process_time() - began_s)

    assert len(status.processes) == NUM + 4
    assert min(took_s) < SHARE_OF_A_CORE, took_s


@pytest.mark.slow
@pytest.mark.system
def test_a_real_coordinator_of_a_thousand_spends_hardly_anything_on_who_looks() -> None:
    """The same with sockets and encoding, by the processor time of its process."""
    with contextlib.ExitStack() as stack:
        process = measured_process("coordinator_process", "coordinator", NUM)
        address, measured = stack.enter_context(process)
        crowd = Crowd(address, NUM)
        stack.callback(crowd.close)
        stack.callback(LightServer(address).close)
        wait_at_work(crowd, StageSpec(0, 1_000_000, 1, 100, 1, True, 0, "data"))
        folder = Path(address.removeprefix("unix:")).parent
        job = JobDir(folder)
        job.write_run(RunFile(RUN, address, str(folder), os.getpid()))
        took_s = []
        for _ in range(3):
            before_s = sum(measured.cpu_times()[:2])
            for _ in range(QUESTIONS):
                assert len(ask_status(job, SystemClock()).processes) == NUM + 2
            took_s.append((sum(measured.cpu_times()[:2]) - before_s) / QUESTIONS)

    assert min(took_s) < SHARE_OF_A_CORE, took_s


@pytest.mark.around
@pytest.mark.slow
@pytest.mark.system
def test_a_page_of_a_thousand_trainers_goes_on_moving(observer: Observer) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    opened = open_dashboard(0)
    observer.start()
    threading.Thread(target=serve, args=(opened, observer), daemon=True).start()
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page()
        page.goto(opened.door.url)
        page.locator("body[data-beats='3']").wait_for()
        frames_ms = sorted(page.evaluate(_FRAMES))
        browser.close()

    assert frames_ms[0] < FRAME_MS, frames_ms
