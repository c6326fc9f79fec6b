"""Who may look at a dashboard: its own user's browser, and nobody else's page.

::

    Host             this machine's loopback, with the port: a name that was made to lead
                     here (DNS rebinding) is refused with 421
    Sec-Fetch-Site   none or same-origin, and Origin the page's own: 403; but a link that is
                     clicked elsewhere and holds the token is the user's own way in
    token            in the address once, then in a cookie that is named after the port
                     (cookies know no ports), or in the header of a program: 401

Pure.
"""

import hmac
from typing import NamedTuple

from paceline.errors import PacelineError

OWN_SITES = frozenset({"", "none", "same-origin"})
HEADERS = {  # of every answer
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageVisit(NamedTuple):
    """What a request says of where it comes from; empty: nothing."""

    method: str
    host: str
    site: str = ""  # Sec-Fetch-Site
    mode: str = ""  # Sec-Fetch-Mode
    target: str = ""  # Sec-Fetch-Dest
    origin: str = ""
    token: str = ""  # in the address
    cookie: str = ""  # or what a program has sent as its authorization

    @property
    def is_link(self) -> bool:
        """Whether a link of another page was clicked, and a window of its own opens."""
        opens = self.mode == "navigate" and self.target == "document"
        return self.site == "cross-site" and self.method == "GET" and opens


class VisitError(PacelineError):
    """A visit that is not let in; ``status`` is HTTP's."""

    def __init__(self, status: int, text: str) -> None:
        """With a sentence for whoever looks at the answer."""
        super().__init__(text)
        self.status = status


def cookie_name(port: int) -> str:
    """Dashboards at other ports of this machine have cookies of their own."""
    return f"paceline-{port}"


def admit(visit: PageVisit, port: int, token: str) -> bool:
    """Let a visit in; True: it has brought the token in its address, and gets the cookie.

    Raises:
        VisitError: it is not let in.
    """
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if visit.host not in hosts:
        raise VisitError(
            421,
            f"this dashboard is reached by 127.0.0.1:{port} or localhost:{port} alone; "
            "with ssh -L use the same port on both sides",
        )
    has_token = _is_same(visit.token, token)
    if visit.site not in OWN_SITES and not (visit.is_link and has_token):
        raise VisitError(403, "another page has asked, in its visitor's name")
    if visit.origin and visit.origin.removeprefix("http://") not in hosts:
        raise VisitError(403, "another page has asked, in its visitor's name")
    if visit.method not in {"GET", "HEAD"}:
        raise VisitError(405, "a dashboard is looked at, and changes nothing")
    if visit.token:
        if has_token:
            return True
        raise VisitError(
            401, "this is the token of another dashboard, or of an earlier one"
        )
    if not _is_same(visit.cookie, token):
        raise VisitError(401, "open the address that paceline dashboard has printed")
    return False


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
