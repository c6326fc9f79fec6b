"""The dashboard as a web server on this machine's loopback, and a picture as one file.

::

    /         the page: no script, style or picture comes from elsewhere
    /metrics  what Prometheus reads
    /beats    server-sent events: the picture once a second, and what is new of its curves
    /word     what the page says along with what it asks for; none behind a proxy
    /ask      by POST: the job is to change (`JobAsks`)

Waits: the main thread, until it is told to stop.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple, final

import msgspec

from paceline.dashboard.asks import MOST_BYTES, JobAsks, parse_ask
from paceline.dashboard.door import HEADERS, WORD, PageDoor, PageVisit, VisitError
from paceline.dashboard.observer import Known, Observer
from paceline.errors import PacelineError, UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

FILES = {  # {path: (file, type)}
    "/": ("page.html", "text/html; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/panels.js": ("panels.js", "text/javascript; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/ask.js": ("ask.js", "text/javascript; charset=utf-8"),
    "/uplot.css": ("uplot.css", "text/css; charset=utf-8"),
    "/uplot.js": ("uplot.js", "text/javascript; charset=utf-8"),
}
METRICS = "text/plain; version=0.0.4; charset=utf-8"
LOOPBACK = "127.0.0.1"
_ASKS = '<script src="ask.js"></script>\n'
_ICON = '<link rel="icon" href="icon.svg" type="image/svg+xml">\n'
# A redirect would still come from the other page, and so have no strict cookie.
_ONWARD = '<!doctype html><meta http-equiv="refresh" content="0;url=./">'
LOOK_S = 0.1  # whether there is a new beat
MOST_PAGES = 64


class Opened(NamedTuple):
    """A dashboard's listening socket, and its door."""

    socket: socket.socket
    door: PageDoor


def open_dashboard(
    port: int, token: str = "", proxy: str = "", *, may_ask: bool = True
) -> Opened:
    """Take a port of the loopback; 0: any. The token is made, unless there is one.

    Behind a proxy nobody asks for a change of the job.

    Raises:
        UsageError: it is taken, or ``paceline[dashboard]`` is not installed.
    """
    try:
        import prometheus_client  # noqa: F401, PLC0415  (an extra)
        import starlette  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(
            f"a dashboard needs {error.name}: pip install paceline[dashboard]"
        ) from error
    taken = socket.socket()
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((LOOPBACK, port))
        taken.listen()  # whoever comes before it answers waits
    except OSError as error:
        taken.close()
        raise UsageError(f"--port {port}: {error.strerror}") from error
    token = token or secrets.token_urlsafe(24)
    door = PageDoor(taken.getsockname()[1], token, proxy, may_ask and not proxy)
    return Opened(taken, door)


def serve(opened: Opened, observer: Observer) -> None:
    """Answer visits until SIGINT or SIGTERM."""
    import uvicorn  # noqa: PLC0415  (an extra)

    def is_stopping() -> bool:
        return server.should_exit

    config = uvicorn.Config(
        Doorkeeper(app_of(observer, opened.door, is_stopping), opened.door),
        log_level="error",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        limit_concurrency=MOST_PAGES,
        server_header=False,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[opened.socket])


def app_of(
    observer: Observer, door: PageDoor, is_stopping: Callable[[], bool]
) -> "Starlette":
    """The pages of an observer; streams end once ``is_stopping``."""
    from starlette.applications import Starlette  # noqa: PLC0415  (an extra)
    from starlette.responses import Response, StreamingResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    async def stream() -> AsyncIterator[bytes]:
        known: Known = {}
        last = 0
        while not is_stopping():
            beat = observer.beat
            if beat.number != last:
                last = beat.number
                curves = msgspec.json.encode(observer.curves(known))
                told = b'{"now":' + beat.now + b',"curves":' + curves + b"}"
                yield b"event: beat\ndata: " + told + b"\n\n"
            await asyncio.sleep(LOOK_S)

    async def beats(_: "Request") -> "Response":
        return StreamingResponse(stream(), media_type="text/event-stream")

    def metrics(_: "Request") -> "Response":
        return Response(observer.metrics(), media_type=METRICS)

    def page(name: str, kind: str) -> Callable[["Request"], "Response"]:
        body = _file(name)

        def answer(_: "Request") -> "Response":
            return Response(body, media_type=kind)

        return answer

    routes = [Route(path, page(*file)) for path, file in FILES.items()]
    routes += [Route("/beats", beats), Route("/metrics", metrics)]
    if door.may_ask:
        routes += asking(observer.asks, door)
    return Starlette(routes=routes)


def asking(asks: JobAsks, door: PageDoor) -> "list[Route]":
    """Where a page asks for a change of the job."""
    from starlette.responses import PlainTextResponse, Response  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415  (an extra)

    async def ask(request: "Request") -> "Response":
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                break
        try:
            asks.ask(parse_ask(body))
        except UsageError as error:
            return PlainTextResponse(str(error), 400)
        return Response(status_code=202)

    def word(_: "Request") -> "Response":
        return PlainTextResponse(door.word)

    return [Route("/ask", ask, methods=["POST"]), Route("/word", word)]


@final
class Doorkeeper:
    """Lets in whom `PageDoor` does, before anything else sees a request."""

    def __init__(self, app: "ASGIApp", door: PageDoor) -> None:
        """Before an application."""
        self._app, self._door = app, door

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """An ASGI application."""
        from starlette.datastructures import MutableHeaders  # noqa: PLC0415  (an extra)
        from starlette.requests import Request  # noqa: PLC0415
        from starlette.responses import (  # noqa: PLC0415
            HTMLResponse,
            PlainTextResponse,
            RedirectResponse,
            Response,
        )

        if scope["type"] != "http":
            return

        async def send_closed(message: Any) -> None:  # noqa: ANN401  (ASGI's own)
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        answer: ASGIApp = self._app
        try:
            visit, door = self._visit(request), self._door
            if door.admit(visit):
                same = request.url.path.rpartition("/")[2]  # also below a proxy's path
                opened: Response = RedirectResponse(f"./{same}", 303)
                if visit.is_link:
                    opened = HTMLResponse(_ONWARD)
                answer = opened
                opened.set_cookie(
                    door.cookie_name,
                    door.token,
                    path=door.path,
                    secure=door.proxy.startswith("https:"),
                    httponly=True,
                    samesite="strict",
                )
        except VisitError as refused:
            answer = PlainTextResponse(str(refused), refused.status)
        await answer(scope, receive, send_closed)

    def _visit(self, request: "Request") -> PageVisit:
        headers = request.headers
        return PageVisit(
            request.method,
            headers.get("host", ""),
            headers.get("sec-fetch-site", ""),
            headers.get("sec-fetch-mode", ""),
            headers.get("sec-fetch-dest", ""),
            headers.get("origin", ""),
            request.query_params.get("token", ""),
            request.cookies.get(self._door.cookie_name, "")
            or headers.get("authorization", "").removeprefix("Bearer "),
            headers.get(WORD, ""),
        )


def report_of(observer: Observer) -> str:
    """The page with all that is known as one HTML file, which needs nothing else.

    A job that runs is asked once how it stands.
    """
    observer.look()
    if not observer.is_over:
        with suppress(PacelineError):  # the picture tells it
            observer.ask()
        observer.look()
    curves = msgspec.json.encode(observer.curves({}))
    told = b'{"now":' + observer.beat.now + b',"curves":' + curves + b"}"
    data = told.decode().replace("<", "\\u003c")  # nothing in it ends the element
    page = _file("page.html").decode()
    page = page.replace(_ICON, "").replace(_ASKS, "")  # a file asks for nothing
    for name in ("uplot.css", "page.css"):
        link = f'<link rel="stylesheet" href="{name}">'
        page = page.replace(link, f"<style>\n{_file(name).decode()}</style>")
    saved = f'<script id="picture" type="application/json">{data}</script>\n'
    for name in ("uplot.js", "panels.js", "page.js"):
        script = f'<script src="{name}"></script>'
        page = page.replace(script, f"{saved}<script>\n{_file(name).decode()}</script>")
        saved = ""
    return page


def _file(name: str) -> bytes:
    return resources.files("paceline.dashboard").joinpath("page", name).read_bytes()
