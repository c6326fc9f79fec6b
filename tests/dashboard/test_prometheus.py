"""A real Prometheus reads a real job, and finds what the Grafana dashboard asks for.

It needs Debian's prometheus, which `make test-around` brings.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.dashboard.showing import boarded, end, pid_of, until

pytestmark = [pytest.mark.around, pytest.mark.slow, pytest.mark.system]

DOCS = Path(__file__).parents[2] / "docs"
END_S = 20.0
INVALID = 400


def expressions() -> list[str]:
    """All that the Grafana dashboard asks for."""
    panels = json.loads((DOCS / "grafana.json").read_text())["panels"]
    told = [target["expr"] for panel in panels for target in panel["targets"]]
    return [expression.replace("$__rate_interval", "15s") for expression in told]


def alerts() -> list[str]:
    """What the page of the dashboard calls worth an alert."""
    _, _, rest = (DOCS / "dashboard.md").read_text().partition("What is worth an alert:")
    table, _, _ = rest.strip().partition("\n\n")
    return re.findall(r"^\| [^|]+ \| `(.+)` \|$", table, re.MULTILINE)


def free_port() -> int:
    """A port of the loopback that nobody has just now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Answering(NamedTuple):
    """A Prometheus at a port."""

    port: int

    def asked(self, expression: str) -> list[Any]:
        """What it answers; nothing while it is not there yet."""
        told = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{told}"
        try:
            with urllib.request.urlopen(url) as answer:
                found: list[Any] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            if error.code == INVALID:
                raise ValueError(f"{expression}: {error.read().decode()}") from error
        except urllib.error.URLError:
            pass
        return []


@contextlib.contextmanager
def prometheus(folder: Path, target: str, token_file: Path) -> Iterator[Answering]:
    """One that scrapes a dashboard each second."""
    config, port = folder / "prometheus.yml", free_port()
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
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )
    process = subprocess.Popen(["prometheus", *options])
    try:
        yield Answering(port)
    finally:
        end([process], signal.SIGTERM, END_S)


def test_every_expression_of_the_grafana_dashboard_finds_something(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with boarded(tmp_path, "job", "--token-file", token) as (job, address):
        assert token.stat().st_mode & 0o777 == 0o600
        target = urlsplit(address).netloc
        with prometheus(tmp_path, target, token) as there:
            until("a scrape", lambda: bool(there.asked("paceline_up == 1")))
            os.kill(pid_of(job, "trainer-1"), signal.SIGKILL)
            until(
                "its death", lambda: bool(there.asked("paceline_processes_lost_total == 1"))
            )
            for expression in expressions():
                until(expression, lambda asks=expression: bool(there.asked(asks)))  # type: ignore[misc]
            assert len(alerts()) == 4
            for alert in alerts():
                there.asked(alert)  # what is not valid, it refuses
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
