"""A dashboard over HTTP, in the process of a test."""

import contextlib
import http.client
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from paceline.dashboard import Jobs, Observer, open_dashboard, serve


class Served(NamedTuple):
    """A dashboard of a test: its port, and its token."""

    port: int
    token: str

    def get(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by their lower-case names, and what was answered."""
        told = {"Cookie": f"paceline-{self.port}={self.token}"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        line.request(method, path, body, headers=told)
        answer = line.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        read = b"" if path.endswith("/beats") else answer.read()
        line.close()
        return answer.status, found, read


@contextlib.contextmanager
def serving(
    shown: Observer | Jobs, monkeypatch: pytest.MonkeyPatch, *, may_ask: bool = True
) -> Iterator[Served]:
    """Serve a job, or several, until the block ends."""
    import uvicorn  # noqa: PLC0415  (an extra)

    servers: list[uvicorn.Server] = []
    make = uvicorn.Server

    def made(config: uvicorn.Config) -> uvicorn.Server:
        servers.append(make(config))
        return servers[-1]

    monkeypatch.setattr("uvicorn.Server", made)
    opened = open_dashboard(0, may_ask=may_ask)
    shown.start()
    thread = threading.Thread(target=serve, args=(opened, shown))
    thread.start()
    try:
        yield Served(opened.door.port, opened.door.token)
    finally:
        servers[0].should_exit = True
        thread.join(10)
        shown.close()
    assert not thread.is_alive()
