"""A folder of jobs over HTTP: the list, each job's page, and what no name opens."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from paceline.cli.dashboard import dashboard
from paceline.dashboard import Jobs, Observer
from paceline.dashboard.door import HEADERS
from paceline.dashboard.web import FILES, LIST_FILES, Opened
from paceline.errors import UsageError
from paceline.timing import SystemClock
from tests.dashboard.folders import ended
from tests.dashboard.served import Served, serving

ODD = "<img src=x onerror=alert(1)> 50%2e #?"
OWN = f"/job/{quote(ODD, safe='')}"


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    ended(tmp_path, ODD, 10.0)
    return Jobs(tmp_path, SystemClock())


@pytest.fixture
def served(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with serving(jobs, monkeypatch) as there:
        yield there


def first_beat(served: Served, path: str) -> dict[str, Any]:
    line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    line.request("GET", path, headers={"Authorization": f"Bearer {served.token}"})
    answer = line.getresponse()
    while not (told := answer.readline()).startswith(b"data: "):
        assert told, "there is no beat"
    line.close()
    found: dict[str, Any] = json.loads(told.removeprefix(b"data: "))
    return found


def test_the_list_and_each_page_are_there_and_closed(served: Served) -> None:
    for base, files in (("", LIST_FILES), (OWN, FILES)):
        for path, (_, kind) in files.items():
            status, headers, body = served.get(base + path)

            assert (status, headers["content-type"]) == (200, kind)
            assert {name: headers[name.lower()] for name in HEADERS} == HEADERS
            assert body


def test_a_page_leads_back_to_the_list_and_one_alone_nowhere(served: Served) -> None:
    assert b'<nav id="among"><a href="../../">' in served.get(f"{OWN}/")[2]


def test_beats_are_of_the_list_or_of_one(served: Served) -> None:
    told = first_beat(served, "/beats")
    assert [row["name"] for row in told["jobs"]["rows"]] == [ODD]
    assert told["t"] > 0

    assert first_beat(served, f"{OWN}/beats")["now"]["head"]["name"] == ODD


@pytest.mark.parametrize(
    "path",
    [
        "/job/../",
        "/job/%2e%2e/",
        "/job/..%2f..%2fetc/",
        "/job/./page.js",
        "/job//",
        "/job/%2fetc%2fpasswd/",
        "/job/%ff/",
        "/job/other/beats",
        f"{OWN}/../job.json",
        f"{OWN}/job.json",
        f"{OWN}/%2e%2e/summary.json",
    ],
)
def test_no_path_leads_to_what_is_not_listed(served: Served, path: str) -> None:
    status, headers, body = served.get(path)

    assert status == 404
    assert b"640" not in body
    assert headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Cookie": "paceline-1=x"}, 401),
    ],
)
def test_strangers_do_not_learn_which_jobs_there_are(
    served: Served, headers: dict[str, str], status: int
) -> None:
    for path in ("/beats", "/metrics", f"{OWN}/", f"{OWN}/beats", "/job/other/"):
        assert served.get(path, **headers)[0] == status
    assert served.get(f"{OWN}/ask", "POST", b'{"ask":"interrupt"}')[0] == 403


def test_a_token_opens_the_page_of_one_job_too(served: Served) -> None:
    status, headers, _ = served.get(f"{OWN}/?token={served.token}", Cookie="")
    assert (status, headers["location"]) == (303, "./")
    assert "path=/;" in headers["set-cookie"].lower()

    status, headers, _ = served.get(f"{OWN}?token={served.token}", Cookie="")
    assert headers["location"] == f"./{quote(ODD, safe='')}"


def test_each_page_asks_its_own_job(served: Served) -> None:
    word = served.get(f"{OWN}/word")[2].decode()
    asked = served.get(f"{OWN}/ask", "POST", b'{"ask":"checkpoint"}', Paceline_Word=word)
    assert asked[0] == 202
    other = served.get("/ask", "POST", b'{"ask":"checkpoint"}', Paceline_Word=word)
    assert other[0] == 404, "the list asks nobody"


def test_a_list_that_is_only_looked_at_asks_none(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(jobs, monkeypatch, may_ask=False) as there:
        assert there.get(f"{OWN}/word")[0] == 404
        assert there.get(f"{OWN}/")[0] == 200


def test_figures_of_the_list_and_of_one(served: Served) -> None:
    assert served.get("/metrics")[0] == 200
    assert b"paceline_over 1.0" in served.get(f"{OWN}/metrics")[2]


def test_the_command_shows_all_jobs_of_a_folder_and_one_of_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[object] = []

    def serve(opened: Opened, shown: Observer | Jobs) -> None:
        opened.socket.close()
        served.append(shown)

    monkeypatch.setattr("paceline.cli.dashboard.serve", serve)
    ended(tmp_path, "job", 10.0)

    dashboard(tmp_path)
    dashboard(tmp_path / "job")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="expected a job folder"):
        dashboard(tmp_path / "empty")

    assert [type(one) for one in served] == [Jobs, Observer]
