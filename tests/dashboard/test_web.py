"""The dashboard over HTTP: what is answered, with which headers, and what is not."""

import http.client
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paceline.dashboard import Observer, open_dashboard, report_of
from paceline.dashboard.door import HEADERS
from paceline.dashboard.web import FILES
from paceline.errors import UsageError
from paceline.events import EventLog
from paceline.launch.job import JobDir
from paceline.timing import SystemClock
from tests.dashboard.served import Served, serving
from tests.dashboard.showing import until as wait_until
from tests.dashboard.test_observer import trained

MARKUP = "<img src=x onerror=alert(1)></script>"


@pytest.fixture
def observer(tmp_path: Path) -> Observer:
    return Observer(JobDir(tmp_path), MARKUP, SystemClock())


@pytest.fixture
def served(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with serving(observer, monkeypatch) as there:
        yield there


def test_all_files_are_there_and_closed(served: Served) -> None:
    for path, (_, kind) in FILES.items():
        status, headers, body = served.get(path)

        assert (status, headers["content-type"]) == (200, kind)
        assert {name: headers[name.lower()] for name in HEADERS} == HEADERS
        assert body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Cookie": "paceline-1=x"}, 401),
    ],
)
def test_strangers_see_nothing(
    served: Served, headers: dict[str, str], status: int
) -> None:
    for path in ("/", "/beats", "/page.js", "/nothing"):
        found, told, body = served.get(path, **headers)

        assert found == status
        assert told["content-security-policy"] == HEADERS["Content-Security-Policy"]
        assert served.token.encode() not in body


def test_the_printed_address_gives_the_cookie_and_leaves_the_token_behind(
    served: Served,
) -> None:
    status, headers, _ = served.get(f"/?token={served.token}", Cookie="")

    assert (status, headers["location"]) == (303, "./")
    cookie = headers["set-cookie"].lower()
    assert cookie.startswith(f"paceline-{served.port}=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert served.get("/", method="PUT")[0] == 405


def test_a_link_that_was_clicked_elsewhere_goes_on_by_itself(served: Served) -> None:
    clicked = {
        "Sec_Fetch_Site": "cross-site",
        "Sec_Fetch_Mode": "navigate",
        "Sec_Fetch_Dest": "document",
    }

    status, headers, body = served.get(f"/?token={served.token}", Cookie="", **clicked)

    assert status == 200
    assert headers["set-cookie"].startswith(f"paceline-{served.port}=")
    assert b"url=./" in body
    assert served.token.encode() not in body
    assert served.get("/", **clicked)[0] == 403


@contextmanager
def beats(served: Served) -> Iterator[Callable[[], dict[str, Any]]]:
    """What gives the next beat, as to a page that is open."""
    line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    cookie = {"Cookie": f"paceline-{served.port}={served.token}"}
    line.request("GET", "/beats", headers=cookie)
    answer = line.getresponse()
    assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"

    def beat() -> dict[str, Any]:
        while not (told := answer.readline()).startswith(b"data: "):
            pass
        found: dict[str, Any] = json.loads(told.removeprefix(b"data: "))
        return found

    yield beat
    line.close()


def test_a_beat_a_second_tells_what_has_come(served: Served, tmp_path: Path) -> None:
    with beats(served) as beat:
        assert beat()["now"]["lanes"] == []
        EventLog(tmp_path / "events.jsonl").write("TrainerJoined", {"trainer": MARKUP})
        until(lambda: bool(beat()["now"]["lanes"]))


@pytest.mark.slow
def test_a_job_is_forecast_once_a_page_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Observer(trained(tmp_path), "job", SystemClock())
    with serving(observer, monkeypatch) as served:
        served.get("/metrics")
        assert json.loads(observer.beat.now)["foreseen"] == {}
        with beats(served) as beat:
            until(lambda: bool(beat()["now"]["foreseen"]))


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(10):  # beats, each of which is a second of waiting
        if is_so():
            return
    raise AssertionError("it did not come")


def test_a_report_is_one_file_that_names_may_not_break(
    observer: Observer, tmp_path: Path
) -> None:
    EventLog(tmp_path / "events.jsonl").write("TrainerJoined", {"trainer": MARKUP})

    page = report_of(observer)
    observer.close()

    assert not re.search(r'<(script|link|img)[^>]* (src|href)="', page)
    assert MARKUP not in page
    saved = re.search(r'<script id="picture" [^>]*>(.*?)</script>', page, re.DOTALL)
    assert saved is not None
    told = json.loads(saved[1])
    assert told["now"]["head"]["name"] == told["now"]["lanes"][0]["id"] == MARKUP


def test_a_taken_port_is_named() -> None:
    opened = open_dashboard(0)

    with pytest.raises(
        UsageError, match=f"--port {opened.door.port}: .*; choose another port"
    ):
        open_dashboard(opened.door.port)
    opened.socket.close()


def test_the_page_asks_with_the_word_that_it_has_read(
    served: Served, observer: Observer
) -> None:
    word = served.get("/word")[2].decode()
    asked = served.get("/ask", "POST", b'{"ask":"pace","pace":"async"}', Paceline_Word=word)
    assert asked[0] == 202
    wait_until("the answer", lambda: observer.asks.told()[0]["state"] == "refused")
    [told] = observer.asks.told()
    assert told["text"] == "the pace async"
    assert "holds no job that runs" in told["reason"]


def test_a_pace_that_is_none_is_told_where_the_page_asks(
    served: Served, observer: Observer
) -> None:
    word = served.get("/word")[2].decode()
    served.get("/ask", "POST", b'{"ask":"pace","pace":"soon"}', Paceline_Word=word)
    wait_until("the answer", lambda: observer.asks.told()[0]["state"] == "refused")
    assert "soon" in observer.asks.told()[0]["reason"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"ask":"remove"}', b"Invalid enum value 'remove'"),
        (b'{"ask":"scale","trainers":1,"x":2}', b"unknown field"),
        (b"[]", b"as JSON"),
        (b" " * 2000, b"at most 1024 bytes"),
    ],
)
def test_what_cannot_be_asked_for_is_told(
    served: Served, observer: Observer, body: bytes, told: bytes
) -> None:
    word = served.get("/word")[2].decode()
    status, _, answer = served.get("/ask", "POST", body, Paceline_Word=word)
    assert status == 400
    assert told in answer
    assert not observer.asks.told()


def test_nobody_asks_without_the_word(served: Served, observer: Observer) -> None:
    for word in ("", served.token):
        body = b'{"ask":"interrupt"}'
        assert served.get("/ask", "POST", body, Paceline_Word=word)[0] == 403
    assert served.get("/ask")[0] == 405
    assert not observer.asks.told()
