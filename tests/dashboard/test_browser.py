"""What people see of real jobs in a real browser: who holds one up, dies, or is silent.

It needs Debian's chromium, which `make test-around` brings.
"""

import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from paceline.launch.job import JobDir
from tests.dashboard.folders import ended
from tests.dashboard.showing import (
    BUSY_MS,
    LIMIT_S,
    Shown,
    board,
    browsing,
    ended_together,
    pid_of,
    showing,
    started,
)

pytestmark = [pytest.mark.around, pytest.mark.slow, pytest.mark.system]

SEVERAL = 7
HIDDEN = """Object.defineProperty(document, "hidden", {value: true, configurable: true})"""
axe = pytest.importorskip("axe_playwright_python.sync_playwright")


def test_a_job_is_seen_to_suffer(tmp_path: Path) -> None:
    with showing(tmp_path, "<b>job<b>") as shown:
        look(shown)


def look(shown: Shown) -> None:
    shown.sees("#answer", "trainer-3 came last to", within_ms=1e3 * LIMIT_S)
    shown.sees("#state", "running")
    assert shown.page.locator("#name").inner_text() == "<b>job<b>"
    assert shown.page.locator("#rounds svg").is_visible()
    assert_accessible(shown)

    os.kill(shown.pid("trainer-1"), signal.SIGKILL)
    shown.sees("#marks", "trainer-1 died (exited: trainer-1 ended with signal 9)")
    shown.until_back("trainer-1")
    os.kill(shown.pid("server-1"), signal.SIGKILL)
    shown.sees("#marks", "server-1 was lost: all return to the last checkpoint")
    shown.until_back("server-1")

    coordinator = shown.pid("coordinator")
    os.kill(coordinator, signal.SIGSTOP)
    shown.sees("#silent", "no answer from the coordinator for ")
    os.kill(coordinator, signal.SIGCONT)
    shown.page.locator("#silent").wait_for(state="hidden", timeout=10_000)

    shown.asks("checkpoint", "Take a checkpoint now?")
    shown.sees("#asked", "a checkpoint: cut ")
    shown.page.locator("#ask-pace").fill("async")
    shown.asks("pace", "Go on with the pace async?")
    shown.sees("#facts", "async")
    shown.sees("#asked", "the pace async")
    shown.sees("#marks", "the pace is async")

    other = shown.browser.new_page()
    other.goto(f'data:text/html,<a href="{shown.address}">the job</a>')
    other.locator("a").click()
    other.locator("#state").filter(has_text="running").wait_for(timeout=BUSY_MS)
    assert "token" not in other.url

    assert not shown.wrong
    assert all(url.startswith("http://127.0.0.1:") for url in shown.requests)


def test_the_forecast_is_seen_beside_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside batches as long as these, what a full machine adds is little.
    monkeypatch.setenv("UNEVEN_STEP_S", "0.3")
    with showing(tmp_path, "an uneven job") as shown:
        shown.sees("#foreseen-told", "By a forecast of each", within_ms=1e3 * LIMIT_S)
        told = shown.page.locator("#foreseen-told").inner_text()
        assert re.match(r"Forecast [\d,]+ records/s, measured [\d,]+: \d+ % apart\. ", told)
        assert "trainer-3 takes " in told
        bars = shown.page.locator("#foreseen svg[role=img] > text").all_text_contents()
        assert bars[::2] == ["measured", "forecast"]
        assert all(told.endswith(" records/s") for told in bars[1::2])
        advice = shown.page.locator("#paces li", has_text="sync:backup=1").first
        assert " times the records/s: paceline pace " in advice.inner_text()
        advice.locator(".command").click()
        copied = shown.page.evaluate("getSelection().toString()")
        assert shlex.split(copied) == [
            "paceline",
            "pace",
            str(shown.job.path),
            "sync:backup=1",
        ]
        assert_accessible(shown)
        assert not shown.wrong


def test_a_folder_that_lacks_something_says_so_where_it_would_be_seen(
    tmp_path: Path,
) -> None:
    job = ended(tmp_path, "foreign", 1e9)
    job.events.write_text('{"time": 1, "what": "begun"}\n')
    with ended_together() as processes:
        address = board(job.path, tmp_path / "said", processes)
        with browsing(job, address) as shown:
            shown.sees("#s-times", "None of the 1 lines of events.jsonl is an event")
            shown.sees("#s-servers", "(status.json), which tell servers' load, are missing")
            told = shown.page.locator("[data-lacking]:visible").all_inner_texts()
            assert len(told) == 5
            assert all(told)
            assert_accessible(shown)
            assert not shown.wrong


def test_all_jobs_of_a_folder_are_seen_on_one_page(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    one, other = (JobDir(runs / name) for name in ("<b>one<b>", "two #2? 50%"))
    ended(runs, "before", 1e9, "failed")
    with ended_together() as processes:
        processes += [started(job, trainers=2, servers=1) for job in (one, other)]
        address = board(runs, tmp_path / "said", processes)
        with browsing(one, address) as shown:
            look_at_all(shown, one, other, runs)


def look_at_all(shown: Shown, one: JobDir, other: JobDir, runs: Path) -> None:
    for job in (one, other):
        sees_row(shown, job.path.name, "running", within_ms=1e3 * LIMIT_S)
    sees_row(shown, "before", "exit 1")
    assert_accessible(shown)
    assert shown.page.locator("#jobs a").all_inner_texts()[2:] == ["before"]

    shown.page.locator("a", has_text=one.path.name).click()
    shown.sees("#state", "running")
    assert shown.page.locator("#name").inner_text() == one.path.name
    assert_accessible(shown)
    shown.asks("checkpoint", "Take a checkpoint now?")
    shown.sees("#asked", "a checkpoint: cut ")
    shown.page.locator("#among a").click()

    ended(runs, "third", 2e9)
    sees_row(shown, "third", "finished")
    coordinator = pid_of(other, "coordinator")
    os.kill(coordinator, signal.SIGSTOP)
    sees_row(shown, other.path.name, "no answer for ")
    os.kill(coordinator, signal.SIGCONT)
    sees_row(shown, other.path.name, "running")
    shutil.rmtree(runs / "third")
    shown.page.locator("a", has_text="third").wait_for(state="detached", timeout=BUSY_MS)

    shown.page.locator("a", has_text=other.path.name).click()
    shown.sees("#state", "running")
    assert shown.page.locator("#name").inner_text() == other.path.name
    shown.page.go_back()
    sees_row(shown, one.path.name, "running")
    many_pages_are_open(shown)
    assert not shown.wrong
    assert all(url.startswith("http://127.0.0.1:") for url in shown.requests)


def many_pages_are_open(shown: Shown) -> None:
    """Those that nobody sees leave the browser's six connections to those that are seen."""
    context = shown.browser.new_context()
    context.add_init_script(HIDDEN)
    for _ in range(SEVERAL):
        context.new_page().goto(shown.address)
    seen = context.new_page()
    seen.add_init_script("delete document.hidden")  # as it is for one that is seen
    seen.goto(shown.address)
    seen.locator("body[data-beats='2']").wait_for(timeout=BUSY_MS)
    assert context.pages[0].locator("body[data-beats]").count() == 0
    context.close()


def sees_row(shown: Shown, name: str, text: str, within_ms: float = BUSY_MS) -> None:
    """A job of the list says so, soon enough."""
    row = shown.page.locator("#jobs tbody", has=shown.page.locator("a", has_text=name))
    row.filter(has_text=text).wait_for(timeout=within_ms)


def assert_accessible(shown: Shown) -> None:
    """In the light, in the dark, and on a narrow screen."""
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 380)):
        shown.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        shown.page.set_viewport_size({"width": width, "height": 800})
        found = axe.Axe().run(shown.page)
        assert not found.violations_count, found.generate_report()
        wide = shown.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "the page itself does not scroll sideways"
