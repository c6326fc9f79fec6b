"""`paceline run --dashboard`: the job is shown from its begin to its end, and no longer."""

import http.client
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from paceline.dashboard.beside import CLOSE_S
from tests.dashboard.showing import LIMIT_S, SCRIPT, until, words

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

STATE = re.compile(r'"state":"(starting|running)"')


class Page:
    """What a browser with the printed address gets."""

    def __init__(self, said: Path) -> None:
        until("the address", lambda: "token=" in said.read_text())
        found = re.search(
            r"shown at http://127.0.0.1:(\d+)/\?token=(\S+)", said.read_text()
        )
        assert found is not None, said.read_text()
        self.port, self.token = int(found[1]), found[2]

    def beat(self) -> str:
        """The next one; empty: nobody is there."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            line.request("GET", "/beats", headers={"Authorization": f"Bearer {self.token}"})
            answer = line.getresponse()
            return (answer.readline() + answer.readline()).decode()
        except OSError:
            return ""
        finally:
            line.close()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_dashboard_beside_a_run_lasts_as_long_as_the_run(
    tmp_path: Path, how: signal.Signals
) -> None:
    said = tmp_path / "said"
    with said.open("wb") as output:
        run = subprocess.Popen(
            words("run", "--dashboard", "--job-dir", tmp_path / "job", SCRIPT),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=output,
        )
    try:
        page = Page(said)
        until("word of the job", lambda: bool(STATE.search(page.beat())))
        run.send_signal(how)
        run.wait(LIMIT_S)
    finally:
        run.kill()
        run.wait()
    if how is signal.SIGINT:
        assert not page.beat(), "it has ended with the run"
    else:
        until(f"an end after {CLOSE_S:g} s at most", lambda: not page.beat())
