"""Who may come in: the first two frames of every connection.

::

    client                                       listener
      Hello(version, run, role, incarnation) ->    hello check
                                             <-    Welcome(version, run, role)
                                             or    Farewell(reason), then the end

Nothing else is read or sent before. A proof of the run's secret belongs here once links
leave the host; on one host the socket's folder and the peer's user id are the proof.

Pure.
"""

from collections.abc import Callable, Collection
from typing import TypeVar, cast

import msgspec

from paceline.errors import FrameRefused, HandshakeRefused
from paceline.ids import RoleKind, role_kind
from paceline.transport.frames import PROTOCOL_VERSION

StructT = TypeVar("StructT", bound=msgspec.Struct)


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Who comes; ``incarnation`` is 0 for one that has none yet."""

    run: str
    role: str
    incarnation: int = 0
    version: int = PROTOCOL_VERSION


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Who has been reached."""

    run: str
    role: str
    version: int = PROTOCOL_VERSION


class Farewell(msgspec.Struct, frozen=True, tag=True):
    """Why the other end closes; its last frame."""

    reason: str


_decoders: dict[type[msgspec.Struct], msgspec.msgpack.Decoder[msgspec.Struct]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Hello, Welcome, Farewell)
}  # made before there are threads; paceline.messages says why

HelloCheck = Callable[[Hello], Welcome]
"""Answers a hello, or raises `HandshakeRefused` with the reason."""


def admit(run: str, role: str, kinds: Collection[RoleKind]) -> HelloCheck:
    """A check that lets in roles of these kinds, of this run and version.

    Args:
        run: id of the run.
        role: role id of the listener's owner.
        kinds: the kinds of role that have business here.
    """

    def check(hello: Hello) -> Welcome:
        _expect(role, "version", PROTOCOL_VERSION, hello.version)
        _expect(role, "run", run, hello.run)
        if role_kind(hello.role) not in kinds:
            raise HandshakeRefused(
                f"{role} expects a role of kind {', '.join(sorted(kinds))}, got "
                f"{hello.role!r}: this is another role's address"
            )
        return Welcome(run=run, role=role)

    return check


def check_welcome(hello: Hello, welcome: Welcome) -> None:
    """Compare what has been reached with what was meant.

    Raises:
        HandshakeRefused: it is of another run or version.
    """
    _expect(hello.role, "version", hello.version, welcome.version)
    _expect(hello.role, "run", hello.run, welcome.run)


def decode_as(kind: type[StructT], message: msgspec.Raw) -> StructT:
    """Decode a `Hello`, `Welcome` or `Farewell`.

    Raises:
        FrameRefused: it is something else.
    """
    try:
        return cast(StructT, _decoders[kind].decode(message))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameRefused(
            f"expected {kind.__name__}, got something else: {error}"
        ) from error


def _expect(role: str, what: str, expected: object, got: object) -> None:
    if expected != got:
        raise HandshakeRefused(
            f"{role} expects {what} {expected!r}, the other end has {got!r}: both must "
            "belong to one job"
        )
