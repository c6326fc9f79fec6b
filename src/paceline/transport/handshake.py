"""Who may come in: the first frames of every connection, and the run's secret.

::

    client (Introduction)                           listener (Reception)
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
user id are proof enough.

::

    transcript       = [version, run, role, incarnation, nonce of the client,
                        nonce of the listener, where the listener is]
    client's proof   = HMAC-SHA256(secret, ["... who connects", transcript])
    listener's proof = HMAC-SHA256(secret, ["... who listens", transcript, its version,
                        run and role])

Both nonces are fresh, so what was recorded proves nothing in another connection. The
direction is named, so neither end can be made to prove to itself what it was asked. Role,
run and incarnation are in it, so nobody in between can change who comes; so is the address
at which the listener was reached, as both ends see it: a proof that was made for one
listener proves nothing to another. The client proves first: a listener says nothing to
those who cannot.

Challenge and response as in RFC 2195 and ISO/IEC 9798-4; what follows the proof is neither
encrypted nor signed.

Pure, but for `Secret.fresh`: nonces are arguments. One thread at a time; sockets are
elsewhere.
"""

import hmac
import secrets
from collections.abc import Collection
from typing import Annotated, NamedTuple, final

import msgspec

from paceline.errors import ForeignPeer, FrameRefused, HandshakeRefused, UsageError
from paceline.ids import RoleKind, role_kind
from paceline.transport.frames import PROTOCOL_VERSION

SECRET_BYTES = 32
_DIGITS = 2 * SECRET_BYTES
NONCE_BYTES = 32

_CLIENT = "paceline handshake 1: who connects"
_LISTENER = "paceline handshake 1: who listens"
_OTHER_SECRET = (
    "both must belong to one run and have its secret (PACELINE_SECRET), with no address "
    "translation in between"
)


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


FromListener = Challenge | Welcome

# Made before there are threads; paceline.messages says why.
FROM_CLIENT: msgspec.msgpack.Decoder[Hello | Proof] = msgspec.msgpack.Decoder(Hello | Proof)
FROM_LISTENER: msgspec.msgpack.Decoder[FromListener] = msgspec.msgpack.Decoder(FromListener)
FAREWELL = msgspec.msgpack.Decoder(Farewell)


@final
class HelloCheck:
    """Lets in roles of some kinds, of one run (empty: of any) and this version.

    ``role`` is the listener's owner; the run's secret is to be proved over TCP. Roles of
    the kinds ``unknowing`` learn by coming which run it is.
    """

    def __init__(
        self,
        run: str,
        role: str,
        kinds: Collection[RoleKind],
        secret: Secret | None = None,
        unknowing: Collection[RoleKind] = (),
    ) -> None:
        self.role = role
        self.secret = secret
        self._run = run
        self._kinds = kinds
        self._unknowing = unknowing

    def __call__(self, hello: Hello) -> Welcome:
        """Answer a hello, once the secret has been proved where there is one.

        Raises:
            HandshakeRefused: with the reason.
        """
        _expect(self.role, "version", PROTOCOL_VERSION, hello.version)
        if self._run and (hello.run or role_kind(hello.role) not in self._unknowing):
            _expect(self.role, "run", self._run, hello.run)
        if role_kind(hello.role) not in self._kinds:
            raise HandshakeRefused(
                f"{self.role} expects a role of kind {', '.join(sorted(self._kinds))}, got "
                f"{hello.role!r}: this is another role's address"
            )
        return Welcome(run=self._run or hello.run, role=self.role)


def check_welcome(hello: Hello, welcome: Welcome) -> None:
    """Compare what has been reached with what was meant.

    Raises:
        ForeignPeer: it is of another run or version.
    """
    _expect(hello.role, "version", hello.version, welcome.version)
    if hello.run:
        _expect(hello.role, "run", hello.run, welcome.run)


def _expect(role: str, what: str, expected: object, got: object) -> None:
    if expected != got:
        raise ForeignPeer(
            f"{role} expects {what} {expected!r}, the other end has {got!r}: both must "
            "belong to one job"
        )


class Transcript(NamedTuple):
    """What both ends have seen of a handshake.

    The hello has the client's nonce, ``nonce`` is the listener's; the listener was reached
    at ``place``, which is empty where that says nothing.
    """

    hello: Hello
    nonce: bytes
    place: bytes

    def client_proof(self, secret: Secret) -> bytes:
        """What the client must send."""
        return self._sign(secret, _CLIENT)

    def listener_proof(self, secret: Secret, welcome: Welcome) -> bytes:
        """What the listener must send with its welcome."""
        return self._sign(secret, _LISTENER, welcome.version, welcome.run, welcome.role)

    def _sign(self, secret: Secret, direction: str, *more: object) -> bytes:
        hello = self.hello
        who = (hello.version, hello.run, hello.role, hello.incarnation, hello.nonce)
        # msgpack says where each part ends, so no two transcripts have the same bytes.
        return secret.sign(
            msgspec.msgpack.encode((direction, *who, self.nonce, self.place, *more))
        )


@final
class Introduction:
    """The client's side of one handshake.

    With a secret both ends prove it, with a fresh ``nonce``, for the place where the
    listener was reached.
    """

    def __init__(
        self, hello: Hello, secret: Secret | None, place: bytes, nonce: bytes
    ) -> None:
        self._secret = secret
        self._place = place
        self._transcript: Transcript | None = None  # once there was a challenge
        self.hello = hello
        if secret is not None:
            self.hello = msgspec.structs.replace(hello, nonce=nonce)

    def answer(self, message: FromListener) -> Proof | Welcome:
        """What to send to a listener that said this; its `Welcome` ends the handshake.

        Raises:
            ForeignPeer: it is of another run, version or secret.
            FrameRefused: this was not its turn.
        """
        if isinstance(message, Challenge):
            return self._prove(message)
        if self._secret is not None:
            self._check_proof(self._secret, message)
        check_welcome(self.hello, message)
        return message

    def _prove(self, challenge: Challenge) -> Proof:
        if self._secret is None:
            raise ForeignPeer(
                f"{self.hello.role} is asked to prove the run's secret, but has none: set "
                "PACELINE_SECRET"
            )
        if self._transcript is not None or len(challenge.nonce) != NONCE_BYTES:
            raise FrameRefused("expected one challenge with a nonce, got another one")
        self._transcript = Transcript(self.hello, challenge.nonce, self._place)
        return Proof(self._transcript.client_proof(self._secret))

    def _check_proof(self, secret: Secret, welcome: Welcome) -> None:
        if self._transcript is None:
            raise ForeignPeer(
                f"{self.hello.role} expects a listener that asks for the run's secret, "
                "this one lets everybody in: it is not of this run"
            )
        expected = self._transcript.listener_proof(secret, welcome)
        if not hmac.compare_digest(expected, welcome.proof):
            raise ForeignPeer(
                f"{self.hello.role} expects a listener that proves the run's secret, and "
                f"the proof does not hold: {_OTHER_SECRET}"
            )


@final
class Reception:
    """The listener's side of one handshake; what it takes is as of `Introduction`."""

    def __init__(
        self, check: HelloCheck, secret: Secret | None, place: bytes, nonce: bytes
    ) -> None:
        self._check = check
        self._secret = secret
        self._place = place
        self._nonce = nonce
        self.hello: Hello | None = None  # once it was said; believed after the `Welcome`

    def answer(self, message: msgspec.Struct | None) -> Challenge | Welcome:
        """What to send to a client that said this; `Welcome` lets it in.

        Raises:
            HandshakeRefused: it may not come in.
            FrameRefused: this was not its turn.
        """
        hello = self.hello
        if hello is None and isinstance(message, Hello):
            self.hello = message
            return (
                self._check(message) if self._secret is None else self._challenge(message)
            )
        if self._secret is None or hello is None or not isinstance(message, Proof):
            raise FrameRefused(f"expected a hello, got {type(message).__name__}")
        transcript = Transcript(hello, self._nonce, self._place)
        if not hmac.compare_digest(transcript.client_proof(self._secret), message.proof):
            raise ForeignPeer(
                f"{self._check.role} expects proof of the run's secret, and that of "
                f"{hello.role!r} does not hold: {_OTHER_SECRET}"
            )
        welcome = self._check(hello)
        proof = transcript.listener_proof(self._secret, welcome)
        return msgspec.structs.replace(welcome, proof=proof)

    def _challenge(self, hello: Hello) -> Challenge:
        if len(hello.nonce) != NONCE_BYTES:
            raise ForeignPeer(
                f"{self._check.role} expects proof of the run's secret, {hello.role!r} has "
                "none to offer: set PACELINE_SECRET"
            )
        return Challenge(self._nonce)
