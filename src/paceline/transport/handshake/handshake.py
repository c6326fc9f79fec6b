"""Who may come in: the first frames of every connection, and the run's secret.

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
user id are proof enough; `greeting` has the order of the frames, and what is proved.

Pure, but for `Secret.fresh`.
"""

import hmac
import secrets
from collections.abc import Collection
from typing import Annotated, final

import msgspec

from paceline.errors import ForeignPeer, FrameRefused, HandshakeRefused, UsageError
from paceline.ids import RoleKind, role_kind
from paceline.transport.frames import PROTOCOL_VERSION

SECRET_BYTES = 32
_DIGITS = 2 * SECRET_BYTES


@final
class Secret:
    """256 random bits that all roles of one run share, and nobody else.

    They travel from the launcher to its processes by environment, and to whoever may read
    the job folder by a file of mode 0600. They are never an argument of a program, never on
    the wire, and no log or error shows them: they print as nothing.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        assert len(key) == SECRET_BYTES
        self._key = key

    @classmethod
    def fresh(cls) -> "Secret":
        """A secret that nobody else has, from the kernel's generator."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def parse(cls, text: str, source: str) -> "Secret":
        """Read what `text` wrote; the error names where it was found.

        Raises:
            UsageError: it is something else; what it is, is not said.
        """
        digits = text.strip()
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if len(key) != SECRET_BYTES:
            raise UsageError(
                f"{source}: expected a secret of {_DIGITS} hexadecimal digits, got "
                f"{len(digits)} characters that are none"
            )
        return cls(key)

    def text(self) -> str:
        """As it is handed on: 64 hexadecimal digits. For environments and files only."""
        return self._key.hex()

    def sign(self, data: bytes) -> bytes:
        """HMAC-SHA256 of ``data`` under the secret (RFC 2104): 32 bytes."""
        return hmac.digest(self._key, data, "sha256")

    def __eq__(self, other: object) -> bool:
        """Whether both are one secret; how long that takes tells nothing."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return "Secret(...)"


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
_FAREWELL = msgspec.msgpack.Decoder(Farewell)


@final
class HelloCheck:
    """Lets in roles of some kinds, of one run and this version.

    ``role`` is the listener's owner; the run's secret is to be proved over TCP.
    """

    def __init__(
        self,
        run: str,
        role: str,
        kinds: Collection[RoleKind],
        secret: Secret | None = None,
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


def check_welcome(hello: Hello, welcome: Welcome) -> None:
    """Compare what has been reached with what was meant.

    Raises:
        ForeignPeer: it is of another run or version.
    """
    _expect(hello.role, "version", hello.version, welcome.version)
    _expect(hello.role, "run", hello.run, welcome.run)


def decode_farewell(message: msgspec.Raw) -> Farewell:
    """Decode why a listener closes, or raise `FrameRefused`."""
    try:
        return _FAREWELL.decode(message)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameRefused(f"expected Farewell, got something else: {error}") from error


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
