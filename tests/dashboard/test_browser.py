"""What people see of a real job in a real browser: who holds it up, dies, or is silent.

It needs Debian's chromium, which `make test-around` brings.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.dashboard.showing import BUSY_MS, LIMIT_S, Shown, showing

pytestmark = [pytest.mark.around, pytest.mark.slow, pytest.mark.system]

axe = pytest.importorskip("axe_playwright_python.sync_playwright")


def test_a_job_is_seen_to_suffer(tmp_path: Path) -> None:
    with showing(tmp_path, "<b>job<b>") as shown:
        look(shown)


def look(shown: Shown) -> None:
    shown.sees("#answer", "trainer-3 came last to", within_ms=1e3 * LIMIT_S)
    shown.sees("#state", "running")
    assert shown.page.locator("#name").inner_text() == "<b>job<b>"
    assert shown.page.locator("#rounds svg").is_visible()
    found = axe.Axe().run(shown.page)
    assert not found.violations_count, found.generate_report()

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
