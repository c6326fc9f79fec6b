"""Who may look: the user's own browser, at the address that was printed."""

import pytest

from paceline.dashboard.door import HEADERS, PageVisit, VisitError, admit

PORT, TOKEN = 8080, "right"
HERE = "127.0.0.1:8080"
LINK = PageVisit("GET", HERE, "cross-site", "navigate", "document", token=TOKEN)


def test_the_token_in_the_address_opens_once_and_the_cookie_afterwards() -> None:
    assert admit(PageVisit("GET", HERE, token=TOKEN), PORT, TOKEN)
    assert not admit(PageVisit("GET", HERE, cookie=TOKEN), PORT, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"])
def test_loopback_has_three_names(host: str) -> None:
    visit = PageVisit("GET", host, "same-origin", origin=f"http://{host}", cookie=TOKEN)

    assert not admit(visit, PORT, TOKEN)


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
        (PageVisit("POST", HERE, cookie=TOKEN), 405),
        (PageVisit("GET", HERE), 401),
        (PageVisit("GET", HERE, cookie="wrong"), 401),
        (PageVisit("GET", HERE, token="wrong", cookie=TOKEN), 401),
        (PageVisit("GET", HERE, token="é"), 401),
    ],
)
def test_all_others_are_refused(visit: PageVisit, status: int) -> None:
    with pytest.raises(VisitError) as refused:
        admit(visit, PORT, TOKEN)

    assert refused.value.status == status
    assert TOKEN not in str(refused.value)


def test_a_link_with_the_token_opens_wherever_it_is_clicked() -> None:
    assert admit(LINK, PORT, TOKEN)


def test_who_comes_by_another_port_is_told_the_right_one() -> None:
    with pytest.raises(VisitError, match=r"127\.0\.0\.1:8080.*the same port on both sides"):
        admit(PageVisit("GET", "127.0.0.1:9090", cookie=TOKEN), PORT, TOKEN)


def test_nothing_of_a_page_may_come_from_elsewhere_or_stand_in_a_frame() -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
