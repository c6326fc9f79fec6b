"""The dashboard as a web server on this machine's loopback, and a picture as one file.

::

    /         the page: no script, style or picture comes from elsewhere
    /metrics  what Prometheus reads
    /beats    server-sent events: the picture once a second, and what is new of its curves
    /word     what the page says along with what it asks for; none behind a proxy
    /ask      by POST: the job is to change (`JobAsks`)

Of a folder of jobs:

::

    /            the list;  /beats, /metrics  its own
    /job/NAME/   all of the above, of one of them

Waits: the main thread, until it is told to stop.
"""

import asyncio
import errno
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple, final
from urllib.parse import quote

import msgspec

from paceline.dashboard.asks import MOST_BYTES, JobAsks, parse_ask
from paceline.dashboard.door import HEADERS, WORD, PageDoor, PageVisit, VisitError
from paceline.dashboard.listing import Jobs
from paceline.dashboard.observer import Known, Observer
from paceline.errors import PacelineError, UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import ASGIApp, Receive, Scope, Send

_HTML, _CSS = "text/html; charset=utf-8", "text/css; charset=utf-8"
_JS = "text/javascript; charset=utf-8"
_BOTH = {
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/page.css": ("page.css", _CSS),
    "/words.js": ("words.js", _JS),
}
FILES = {  # {path: (file, type)}
    "/": ("page.html", _HTML),
    **_BOTH,
    "/panels.js": ("panels.js", _JS),
    "/page.js": ("page.js", _JS),
    "/ask.js": ("ask.js", _JS),
    "/uplot.css": ("uplot.css", _CSS),
    "/uplot.js": ("uplot.js", _JS),
}
LIST_FILES = {"/": ("jobs.html", _HTML), **_BOTH, "/jobs.js": ("jobs.js", _JS)}
METRICS = "text/plain; version=0.0.4; charset=utf-8"
LOOPBACK = "127.0.0.1"
_ASKS = '<script src="ask.js"></script>\n'
_IS_ONE = '<nav id="among" hidden>'
_IS_ONE_OF_MANY = '<nav id="among">'
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
            f"a dashboard needs {error.name}: pip install 'paceline[dashboard]'"
        ) from error
    taken = socket.socket()
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((LOOPBACK, port))
        taken.listen()  # whoever comes before it answers waits
    except OSError as error:
        taken.close()
        why = error.strerror
        if error.errno == errno.EADDRINUSE:
            why = (
                "somebody listens there already, perhaps another dashboard; choose another "
                "port, or leave --port out for any that is free"
            )
        raise UsageError(f"--port {port}: {why}") from error
    token = token or secrets.token_urlsafe(24)
    door = PageDoor(taken.getsockname()[1], token, proxy, may_ask and not proxy)
    return Opened(taken, door)


def serve(opened: Opened, shown: Observer | Jobs) -> None:
    """Answer visits of a job, or of several, until SIGINT or SIGTERM."""
    import uvicorn  # noqa: PLC0415  (an extra)

    def is_stopping() -> bool:
        return server.should_exit

    if isinstance(shown, Jobs):
        app = list_app_of(shown, opened.door, is_stopping)
    else:
        app = app_of(shown, opened.door, is_stopping)
    config = uvicorn.Config(
        Doorkeeper(app, opened.door),
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
    observer: Observer,
    door: PageDoor,
    is_stopping: Callable[[], bool],
    *,
    is_one_of_many: bool = False,
) -> "Starlette":
    """The pages of an observer; streams end once ``is_stopping``.

    ``is_one_of_many``: there is a list two paths above, to which the page leads back.
    """
    from starlette.applications import Starlette  # noqa: PLC0415  (an extra)

    def told() -> Callable[[], bytes | None]:
        known: Known = {}
        last = 0

        def told_next() -> bytes | None:
            nonlocal last
            beat = observer.beat
            if beat.number == last:
                return None
            last = beat.number
            curves = msgspec.json.encode(observer.curves(known))
            return b'{"now":' + beat.now + b',"curves":' + curves + b"}"

        return told_next

    routes = _routes(FILES, told, observer.metrics, is_stopping)
    if is_one_of_many:
        routes.insert(0, _file_route("/", *FILES["/"], _IS_ONE, _IS_ONE_OF_MANY))
    if door.may_ask:
        routes += asking(observer.asks, door)
    return Starlette(routes=routes)


def list_app_of(jobs: Jobs, door: PageDoor, is_stopping: Callable[[], bool]) -> "Starlette":
    """The list of jobs, and below it the pages of each."""
    from starlette.applications import Starlette  # noqa: PLC0415  (an extra)
    from starlette.responses import PlainTextResponse  # noqa: PLC0415
    from starlette.routing import Mount  # noqa: PLC0415

    def told() -> Callable[[], bytes | None]:
        last_t, last = 0.0, b""

        def told_next() -> bytes | None:
            nonlocal last_t, last
            beat = jobs.beat
            if beat.t == last_t:
                return None
            is_known, last_t, last = beat.told is last, beat.t, beat.told
            jobs_told = b"null" if is_known else beat.told
            return b'{"t":' + str(beat.t).encode() + b',"jobs":' + jobs_told + b"}"

        return told_next

    async def job(scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            visited = jobs.enter(scope["path_params"]["name"])
        except VisitError as refused:
            answer = PlainTextResponse(str(refused), refused.status)
            await answer(scope, receive, send)
            return
        try:
            if visited.app is None:
                visited.app = app_of(
                    visited.observer, door, is_stopping, is_one_of_many=True
                )
            await visited.app(scope, receive, send)
        finally:
            jobs.leave(visited)

    routes = _routes(LIST_FILES, told, jobs.metrics, is_stopping)
    return Starlette(routes=[*routes, Mount("/job/{name}", job)])


def _routes(
    files: dict[str, tuple[str, str]],
    told: Callable[[], Callable[[], bytes | None]],
    metrics: Callable[[], bytes],
    is_stopping: Callable[[], bool],
) -> "list[BaseRoute]":
    """Files, figures, and a stream of what is ``told``: None until there is more."""
    from starlette.responses import Response, StreamingResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415  (an extra)

    async def stream() -> AsyncIterator[bytes]:
        told_next = told()
        while not is_stopping():
            if (beat := told_next()) is not None:
                yield b"event: beat\ndata: " + beat + b"\n\n"
            await asyncio.sleep(LOOK_S)

    async def beats(_: "Request") -> "Response":
        return StreamingResponse(stream(), media_type="text/event-stream")

    def figures(_: "Request") -> "Response":
        return Response(metrics(), media_type=METRICS)

    routes: list[BaseRoute] = [_file_route(path, *file) for path, file in files.items()]
    return [*routes, Route("/beats", beats), Route("/metrics", figures)]


def _file_route(path: str, name: str, kind: str, old: str = "", new: str = "") -> "Route":
    from starlette.responses import Response  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415  (an extra)

    body = _file(name).replace(old.encode(), new.encode()) if old else _file(name)

    def answer(_: "Request") -> "Response":
        return Response(body, media_type=kind)

    return Route(path, answer)


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
                same = quote(scope["path"].rpartition("/")[2])  # also below a proxy's path
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
    observer.foresee()
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
    for name in ("uplot.js", "words.js", "panels.js", "page.js"):
        script = f'<script src="{name}"></script>'
        page = page.replace(script, f"{saved}<script>\n{_file(name).decode()}</script>")
        saved = ""
    return page


def _file(name: str) -> bytes:
    return resources.files("paceline.dashboard").joinpath("page", name).read_bytes()
