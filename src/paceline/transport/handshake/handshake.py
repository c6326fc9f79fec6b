"""Who may come in: the first frames of every connection.

::

    client                                          listener
      Hello(version, run, role, incarnation)    ->    hello check
                                                <-    Welcome(version, run, role)

    where the run's secret must be known (TCP):

      Hello(..., nonce)                         ->
                                                <-    Challenge(nonce)
      Proof(of the client)                      ->    compare, then hello check
                                                <-    Welcome(..., proof of the listener)
      compare

    instead of any answer: Farewell(reason), then the end

Nothing else is read or sent before. On one host the Unix socket's folder and the peer's
user id are proof enough; `greeting` has the order of the frames, `proof` what is proved.

Pure.
"""

from collections.abc import Collection
from typing import Annotated, TypeVar, cast, final

import msgspec

from paceline.errors import ForeignPeer, FrameRefused, HandshakeRefused
from paceline.ids import RoleKind, role_kind
from paceline.transport.frames import PROTOCOL_VERSION
from paceline.transport.handshake.secret import Secret

StructT = TypeVar("StructT", bound=msgspec.Struct)

Name = Annotated[str, msgspec.Meta(max_length=256)]
Bits = Annotated[bytes, msgspec.Meta(max_length=64)]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Who comes; ``incarnation`` is 0 for one that has none yet.

    A listener that must prove the secret does so with ``nonce``.
    """

    run: Name
    role: Name
    incarnation: int = 0
    version: int = PROTOCOL_VERSION
    nonce: Bits = b""


class Challenge(msgspec.Struct, frozen=True, tag=True):
    """Prove, with this nonce, that you know the secret."""

    nonce: Bits


class Proof(msgspec.Struct, frozen=True, tag=True):
    """The answer to a `Challenge`."""

    proof: Bits


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Who has been reached; ``proof`` answers the nonce of the `Hello`."""

    run: Name
    role: Name
    version: int = PROTOCOL_VERSION
    proof: Bits = b""


class Farewell(msgspec.Struct, frozen=True, tag=True):
    """Why the other end closes; its last frame.

    ``is_foreign``: one end is of another run, version or secret.
    """

    reason: str
    is_foreign: bool = False


FromClient = Hello | Proof
FromListener = Challenge | Welcome

# Made before there are threads; paceline.messages says why.
FROM_CLIENT: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(FromClient)
_FROM_LISTENER: msgspec.msgpack.Decoder[FromListener] = msgspec.msgpack.Decoder(
    FromListener
)
_decoders: dict[type[msgspec.Struct], msgspec.msgpack.Decoder[msgspec.Struct]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Hello, Farewell)
}


@final
class HelloCheck:
    """What a listener asks of those who come."""

    def __init__(
        self, run: str, role: str, kinds: Collection[RoleKind], secret: Secret | None
    ) -> None:
        self.role = role
        self.secret = secret
        self._run = run
        self._kinds = kinds

    def __call__(self, hello: Hello) -> Welcome:
        """Answer a hello, once the secret has been proved where there is one.

        Raises:
            HandshakeRefused: with the reason.
        """
        _expect(self.role, "version", PROTOCOL_VERSION, hello.version)
        _expect(self.role, "run", self._run, hello.run)
        if role_kind(hello.role) not in self._kinds:
            raise HandshakeRefused(
                f"{self.role} expects a role of kind {', '.join(sorted(self._kinds))}, got "
                f"{hello.role!r}: this is another role's address"
            )
        return Welcome(run=self._run, role=self.role)


def admit(
    run: str, role: str, kinds: Collection[RoleKind], secret: Secret | None = None
) -> HelloCheck:
    """A check that lets in roles of these kinds, of this run and version.

    Args:
        run: id of the run.
        role: role id of the listener's owner.
        kinds: the kinds of role that have business here.
        secret: the run's, to be proved over TCP.
    """
    return HelloCheck(run, role, kinds, secret)


def check_welcome(hello: Hello, welcome: Welcome) -> None:
    """Compare what has been reached with what was meant.

    Raises:
        ForeignPeer: it is of another run or version.
    """
    _expect(hello.role, "version", hello.version, welcome.version)
    _expect(hello.role, "run", hello.run, welcome.run)


def decode_as(kind: type[StructT], message: msgspec.Raw) -> StructT:
    """Decode a `Hello` or `Farewell`, or raise `FrameRefused`."""
    try:
        return cast(StructT, _decoders[kind].decode(message))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameRefused(
            f"expected {kind.__name__}, got something else: {error}"
        ) from error


def decode_answer(message: msgspec.Raw) -> FromListener:
    """Decode what a listener answers, or raise `FrameRefused`."""
    try:
        return _FROM_LISTENER.decode(message)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameRefused(
            f"expected Challenge or Welcome, got something else: {error}"
        ) from error


def _expect(role: str, what: str, expected: object, got: object) -> None:
    if expected != got:
        raise ForeignPeer(
            f"{role} expects {what} {expected!r}, the other end has {got!r}: both must "
            "belong to one job"
        )
