"""The pictures of docs/dashboard.md: ``python -m tests.dashboard.pictures``."""

import os
import signal
import tempfile
import time
from pathlib import Path

from paceline.launch.job import JobDir
from tests.dashboard.folders import ended
from tests.dashboard.showing import (
    LIMIT_S,
    Shown,
    board,
    browsing,
    ended_together,
    showing,
    started,
)

IMAGES = Path(__file__).parents[2] / "docs" / "images"
BETWEEN_S = 12.0
STEP_S = "0.1"  # beside it what a full machine adds is little, as a forecast takes it


def main() -> None:
    """One job, and several."""
    os.environ["UNEVEN_STEP_S"] = STEP_S
    with tempfile.TemporaryDirectory() as folder:
        draw_one(Path(folder))
        draw_list(Path(folder))


def draw_one(folder: Path) -> None:
    """Let a job suffer, and keep how it looks, light and dark."""
    with showing(folder, "20261127-094500-train") as shown:
        for role in ("trainer-1", "server-1"):
            time.sleep(BETWEEN_S)
            os.kill(shown.pid(role), signal.SIGKILL)
        # The last minute has deaths in it, of which a forecast may know nothing.
        shown.sees("#paces", "sync:backup=1", within_ms=3e3 * LIMIT_S)
        for scheme in ("light", "dark"):
            keep(shown, scheme, f"dashboard-{scheme}.png")


def draw_list(folder: Path) -> None:
    """Two jobs that run, and some that have ended."""
    runs, now_t = folder / "runs", time.time()
    why = "trainer-1 failed 3 times; its last words: ValueError: a batch of 0 records"
    for n, ending in enumerate(("trained", "failed", "trained", "trained")):
        ended(runs, f"20261126-1{n}1500-ctr", now_t - 86400 + 3600 * n, ending, why)
    names = ("20261127-094500-train", "20261127-094800-train")
    with ended_together() as processes:
        for size, name in enumerate(names, 2):
            processes.append(started(JobDir(runs / name), trainers=size, servers=1))
        address = board(runs, folder / "said of all", processes)
        with browsing(JobDir(runs / names[0]), address) as shown:
            for name in names:
                row = shown.page.locator("#jobs tbody").filter(has_text=name)
                row.filter(has_text="running").wait_for(timeout=1e3 * LIMIT_S)
            time.sleep(BETWEEN_S)
            for scheme in ("light", "dark"):
                keep(shown, scheme, f"dashboard-jobs-{scheme}.png")


def keep(shown: Shown, scheme: str, name: str) -> None:
    """One picture, of the whole page."""
    size = {"width": 1180, "height": 400}
    page = shown.browser.new_page(viewport=size, color_scheme=scheme)
    page.goto(shown.address)
    page.locator("body[data-beats='3']").wait_for()
    page.screenshot(path=IMAGES / name, full_page=True)


if __name__ == "__main__":
    main()
