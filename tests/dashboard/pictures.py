"""The pictures of docs/dashboard.md: ``python -m tests.dashboard.pictures``."""

import os
import signal
import tempfile
import time
from pathlib import Path

from tests.dashboard.showing import Shown, showing

IMAGES = Path(__file__).parents[2] / "docs" / "images"
BETWEEN_S = 12.0


def main() -> None:
    """Let a job suffer, and keep how it looks, light and dark."""
    with (
        tempfile.TemporaryDirectory() as folder,
        showing(Path(folder), "20261127-094500-train") as shown,
    ):
        for role in ("trainer-1", "server-1"):
            time.sleep(BETWEEN_S)
            os.kill(shown.pid(role), signal.SIGKILL)
        time.sleep(BETWEEN_S)
        for scheme in ("light", "dark"):
            keep(shown, scheme)


def keep(shown: Shown, scheme: str) -> None:
    """One picture, of the whole page."""
    size = {"width": 1180, "height": 900}
    page = shown.browser.new_page(viewport=size, color_scheme=scheme)
    page.goto(shown.address)
    page.locator("body[data-beats='3']").wait_for()
    page.screenshot(path=IMAGES / f"dashboard-{scheme}.png", full_page=True)


if __name__ == "__main__":
    main()
