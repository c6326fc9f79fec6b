"""A real Prometheus reads a real job, and finds what the Grafana dashboard asks for.

It needs Debian's prometheus, which `make test-around` brings.
"""

import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.dashboard.showing import boarded, pid_of, until

pytestmark = [pytest.mark.around, pytest.mark.slow, pytest.mark.system]

GRAFANA = Path(__file__).parents[2] / "docs" / "grafana.json"
PORT = 19090


def expressions() -> list[str]:
    """All that the Grafana dashboard asks for."""
    panels = json.loads(GRAFANA.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def asked(expression: str) -> list[Any]:
    """What Prometheus answers; nothing while it is not there yet."""
    told = urllib.parse.urlencode({"query": expression})
    url = f"http://127.0.0.1:{PORT}/api/v1/query?{told}"
    with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url) as answer:
        found: list[Any] = json.load(answer)["data"]["result"]
        return found
    return []


@contextlib.contextmanager
def prometheus(folder: Path, target: str, token_file: Path) -> Iterator[None]:
    """One that scrapes a dashboard each second."""
    config = folder / "prometheus.yml"
    job = {
        "job_name": "paceline",
        "authorization": {"credentials_file": str(token_file)},
        "static_configs": [{"targets": [target]}],
    }
    told = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    config.write_text(json.dumps(told))  # which YAML takes
    options = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{PORT}",
        "--log.level=error",
    )
    with subprocess.Popen(["prometheus", *options]) as process:
        yield
        process.terminate()


def test_every_expression_of_the_grafana_dashboard_finds_something(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with boarded(tmp_path, "job", "--token-file", token) as (job, address):
        assert token.stat().st_mode & 0o777 == 0o600
        target = urlsplit(address).netloc
        with prometheus(tmp_path, target, token):
            until("a scrape", lambda: bool(asked("paceline_up == 1")))
            os.kill(pid_of(job, "trainer-1"), signal.SIGKILL)
            until("its death", lambda: bool(asked("paceline_processes_lost_total == 1")))
            for expression in expressions():
                until(expression, lambda asks=expression: bool(asked(asks)))  # type: ignore[misc]
        text = scraped(target, token.read_text())
    check = ["promtool", "check", "metrics"]
    said = subprocess.run(check, input=text, capture_output=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


def scraped(target: str, token: str) -> bytes:
    """What a dashboard tells to whoever has the token."""
    request = urllib.request.Request(f"http://{target}/metrics")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request) as answer:
        found: bytes = answer.read()
    return found
