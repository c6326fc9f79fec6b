"""Who may look at a dashboard, and ask: its own user's browser, and nobody else's page.

::

    Host             this machine's loopback, with the port: a name that was made to lead
                     here (DNS rebinding) is refused with 421
    Sec-Fetch-Site   none or same-origin, and Origin the page's own: 403; but a link that is
                     clicked elsewhere and holds the token is the user's own way in
    token            in the address once, then in a cookie that is named after the port
                     (cookies know no ports), or in the header of a program: 401
    word             in a header of what changes the job; no page but this one can read it,
                     and send it (POST): 403. Whoever has the token can, too.

Behind a proxy the page is at the address that its visitors see, and changes nothing: who
they are, the proxy alone knows. Nor does one that is only to be looked at.

Pure.
"""

import hmac
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from paceline.errors import PacelineError, UsageError

OWN_SITES = frozenset({"", "none", "same-origin"})
WORD = "paceline-word"  # the header
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
_PORTS = {"http": 80, "https": 443}
_OTHERS = "another page has asked, in its visitor's name"


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
    word: str = ""

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


class PageDoor(NamedTuple):
    """Where a dashboard is, what opens it, and what its visitors call it."""

    port: int
    token: str
    proxy: str = ""  # the address behind which it is: https://jobs.example.org/mine
    may_ask: bool = True  # for a change of the job

    @property
    def url(self) -> str:
        """What is to be opened in a browser; it holds the token."""
        at = self.proxy.rstrip("/") or f"http://127.0.0.1:{self.port}"
        return f"{at}/?token={self.token}"

    @property
    def cookie_name(self) -> str:
        """Dashboards at other ports of this machine have cookies of their own."""
        return f"paceline-{self.port}"

    @property
    def path(self) -> str:
        """Below which its visitors find it: no other page of that host gets the cookie."""
        return urlsplit(self.proxy).path or "/"

    @property
    def word(self) -> str:
        """What the page sends along when it asks for a change of the job."""
        return hmac.digest(self.token.encode(), b"ask", "sha256").hex()

    def origins(self) -> dict[str, str]:
        """Of all names that it has: {host: origin}."""
        names = ("127.0.0.1", "localhost", "[::1]")
        hosts = {f"{name}:{self.port}": f"http://{name}:{self.port}" for name in names}
        if self.proxy:
            seen = urlsplit(self.proxy)
            hosts[seen.netloc] = f"{seen.scheme}://{seen.netloc}"
        return hosts

    def admit(self, visit: PageVisit) -> bool:
        """Let a visit in; True: it brings the token in its address, and gets the cookie.

        Raises:
            VisitError: it is not let in.
        """
        origins = self.origins()
        if visit.host not in origins:
            raise VisitError(421, f"this dashboard is reached by {self._names()}")
        has_token = _is_same(visit.token, self.token)
        if visit.site not in OWN_SITES and not (visit.is_link and has_token):
            raise VisitError(403, _OTHERS)
        if visit.origin and visit.origin not in origins.values():
            raise VisitError(403, _OTHERS)
        if visit.method == "POST":
            self._admit_change(visit)
        elif visit.method not in {"GET", "HEAD"}:
            raise VisitError(405, "a dashboard is looked at, and asked by POST")
        if visit.token:
            if has_token and visit.method != "POST":
                return True
            raise VisitError(
                401, "this is the token of another dashboard, or of an earlier one"
            )
        if not _is_same(visit.cookie, self.token):
            raise VisitError(401, "open the address that paceline dashboard has printed")
        return False

    def _names(self) -> str:
        if self.proxy:
            return f"{self.proxy} alone"
        here = f"127.0.0.1:{self.port} or localhost:{self.port} alone"
        return f"{here}; with ssh -L use the same port on both sides"

    def _admit_change(self, visit: PageVisit) -> None:
        if not self.may_ask:
            raise VisitError(405, "this dashboard is looked at, and changes nothing")
        if not _is_same(visit.word, self.word):
            raise VisitError(403, "only the page of this dashboard asks for a change")


def parse_proxy(text: str) -> str:
    """The address that visitors see, as ``--behind-proxy`` says it.

    Raises:
        UsageError: it is none.
    """
    with suppress(ValueError):  # of a port, or of brackets
        seen = urlsplit(text)
        host, port = seen.hostname or "", seen.port
        is_bare = not (seen.query or seen.fragment or "@" in seen.netloc)
        if seen.scheme in _PORTS and host and is_bare:
            host = f"[{host}]" if ":" in host else host
            told = "" if port in {None, _PORTS[seen.scheme]} else f":{port}"
            return f"{seen.scheme}://{host}{told}{seen.path}"  # as browsers say it
    raise UsageError(
        "--behind-proxy: expected the address that visitors see, "
        f"https://jobs.example.org/mine; got {text!r}"
    )


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
