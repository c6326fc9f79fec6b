"""Who may look, and ask: the user's own browser, at the address that was printed."""

import pytest

from paceline.dashboard.door import (
    HEADERS,
    PageDoor,
    PageVisit,
    VisitError,
    parse_proxy,
)
from paceline.errors import UsageError

TOKEN = "right"
DOOR = PageDoor(8080, TOKEN)
BEHIND = PageDoor(8080, TOKEN, "https://jobs.example.org/mine", may_ask=False)
HERE = "127.0.0.1:8080"
LINK = PageVisit("GET", HERE, "cross-site", "navigate", "document", token=TOKEN)


def test_the_token_in_the_address_opens_once_and_the_cookie_afterwards() -> None:
    assert DOOR.admit(PageVisit("GET", HERE, token=TOKEN))
    assert not DOOR.admit(PageVisit("GET", HERE, cookie=TOKEN))


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"])
def test_loopback_has_three_names(host: str) -> None:
    visit = PageVisit("GET", host, "same-origin", origin=f"http://{host}", cookie=TOKEN)

    assert not DOOR.admit(visit)


@pytest.mark.parametrize(
    ("visit", "status"),
    [
        (PageVisit("GET", "evil.example:8080", cookie=TOKEN), 421),
        (PageVisit("GET", "127.0.0.1:8081", cookie=TOKEN), 421),
        (PageVisit("GET", "", cookie=TOKEN), 421),
        (PageVisit("GET", HERE, "cross-site", cookie=TOKEN), 403),
        (PageVisit("GET", HERE, "same-site", cookie=TOKEN), 403),
        (PageVisit("GET", HERE, origin="http://evil.example", cookie=TOKEN), 403),
        (PageVisit("GET", HERE, origin="https://127.0.0.1:8080.evil", cookie=TOKEN), 403),
        (LINK._replace(token="", cookie=TOKEN), 403),
        (LINK._replace(token="wrong"), 403),
        (LINK._replace(mode="no-cors"), 403),
        (LINK._replace(target="iframe"), 403),
        (LINK._replace(method="POST"), 403),
        (LINK._replace(origin="http://evil.example"), 403),
        (PageVisit("PUT", HERE, cookie=TOKEN), 405),
        (PageVisit("POST", HERE, cookie=TOKEN), 403),
        (PageVisit("POST", HERE, cookie=TOKEN, word=TOKEN), 403),
        (PageVisit("POST", HERE, word=DOOR.word), 401),
        (PageVisit("POST", HERE, token=TOKEN, word=DOOR.word), 401),
        (PageVisit("POST", HERE, "cross-site", cookie=TOKEN, word=DOOR.word), 403),
        (PageVisit("GET", HERE), 401),
        (PageVisit("GET", HERE, cookie="wrong"), 401),
        (PageVisit("GET", HERE, token="wrong", cookie=TOKEN), 401),
        (PageVisit("GET", HERE, token="é"), 401),
    ],
)
def test_all_others_are_refused(visit: PageVisit, status: int) -> None:
    with pytest.raises(VisitError) as refused:
        DOOR.admit(visit)

    assert refused.value.status == status
    assert TOKEN not in str(refused.value)


def test_a_link_with_the_token_opens_wherever_it_is_clicked() -> None:
    assert DOOR.admit(LINK)


def test_who_comes_by_another_port_is_told_the_right_one() -> None:
    with pytest.raises(VisitError, match=r"127\.0\.0\.1:8080.*the same port on both sides"):
        DOOR.admit(PageVisit("GET", "127.0.0.1:9090", cookie=TOKEN))


def test_nothing_of_a_page_may_come_from_elsewhere_or_stand_in_a_frame() -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_page_alone_asks_with_its_word() -> None:
    here = PageVisit("POST", HERE, "same-origin", origin=f"http://{HERE}", cookie=TOKEN)

    assert not DOOR.admit(here._replace(word=DOOR.word))
    assert PageDoor(8080, "other").word != DOOR.word


def test_behind_a_proxy_the_page_is_at_the_address_that_visitors_see() -> None:
    there = PageVisit("GET", "jobs.example.org", "same-origin", cookie=TOKEN)

    assert BEHIND.url == "https://jobs.example.org/mine/?token=right"
    assert not BEHIND.admit(there._replace(origin="https://jobs.example.org"))
    assert not BEHIND.admit(PageVisit("GET", HERE, cookie=TOKEN)), "the proxy's own way"
    for visit, status in (
        (there._replace(host="evil.example"), 421),
        (there._replace(origin="http://jobs.example.org"), 403),
        (there._replace(method="POST", word=BEHIND.word), 405),
    ):
        with pytest.raises(VisitError) as refused:
            BEHIND.admit(visit)
        assert refused.value.status == status


@pytest.mark.parametrize(
    "text",
    [
        "jobs.example.org",
        "ftp://a",
        "https://a/?x",
        "https://me@a/",
        "https://[::1",
        "https://a:x/",
        "",
    ],
)
def test_an_address_that_visitors_cannot_open_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--behind-proxy: expected the address"):
        parse_proxy(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("https://Jobs.Example.org/mine", "https://jobs.example.org/mine"),
        ("HTTPS://a.org:443/", "https://a.org/"),
        ("http://a.org:8080", "http://a.org:8080"),
    ],
)
def test_an_address_is_taken_as_browsers_say_it(text: str, read: str) -> None:
    assert parse_proxy(text) == read


def test_the_cookie_is_for_the_page_and_not_for_what_shares_its_host() -> None:
    assert BEHIND.path == "/mine"
    assert DOOR.path == "/"
