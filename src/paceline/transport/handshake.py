"""Who may come in: what both ends say first and prove, and the run's secret.

::

    client (`greeting.Introduction`)                listener (`greeting.Reception`)
      Hello(version, run, role, incarnation)    ->    hello check
                                                <-    Welcome(version, run, role)

    where the run's secret must be known (TCP):

      Hello(..., way, key id, nonce)            ->    compare the way, look for the key
                                                <-    Challenge(nonce)
      Proof(of the client)                      ->    compare, then hello check
                                                <-    Welcome(..., proof of the listener)
      compare

    instead of any answer: Farewell(reason), then the end

Nothing else is read or sent before, but for TLS, which these frames are within. On one host
the Unix socket's folder and the peer's user id are proof enough.

::

    transcript       = [version, run, role, incarnation, nonce of the client, way, key id,
                        nonce of the listener, where the listener is]
    client's proof   = HMAC-SHA256(secret, ["... who connects", transcript])
    listener's proof = HMAC-SHA256(secret, ["... who listens", transcript, its version,
                        run and role])

Both nonces are fresh, so what was recorded proves nothing in another connection. The
direction is named, so neither end can be made to prove to itself what it was asked. Role,
run and incarnation are in it, so nobody in between can change who comes. The client proves
first: a listener says nothing to those who cannot.

Where the listener is, so that a proof made for one listener proves nothing to another::

    TLS      SHA-256 of the listener's certificate, as the client was shown it and as the
             listener has it. Whoever ends TLS in between has another one. Who only passes
             bytes on (translated addresses, forwarded ports) changes nothing and is no
             obstacle; nor does he learn anything.
    else     address and port of the listener, as both ends see them. Somebody who has only
             a port of his own (that of a role that died) can pass on no proof to its
             successor. Without TLS there is nothing better to name: a name that both ends
             are told would be told by whoever passes it on. Who controls the network in
             between keeps addresses as they are, passes the proof on, and may change what
             follows: that is what TLS is for, and why plain links need a network of their
             own. The price is that plain links bear no translation of addresses.

Challenge and response as in RFC 2195 and ISO/IEC 9798-4; the certificate's hash as in RFC
5929, tls-server-end-point. The handshake's frames bear damage without checksums: what
matters in them is proved.

Pure, but for `Secret.fresh`. Sockets are elsewhere.
"""

import hmac
import secrets
from collections.abc import Collection
from typing import Annotated, Literal, NamedTuple, final

import msgspec

from paceline.errors import ForeignPeer, HandshakeRefused, UsageError
from paceline.ids import RoleKind, role_kind
from paceline.transport.address import TcpAddress
from paceline.transport.frames import PROTOCOL_VERSION

SECRET_BYTES = 32
_DIGITS = 2 * SECRET_BYTES
NONCE_BYTES = 32
_KEY_ID_BYTES = 8

_CLIENT = "paceline handshake 2: who connects"
_LISTENER = "paceline handshake 2: who listens"


@final
class Secret:
    """256 random bits that all roles of one run share, and nobody else.

    They travel from the launcher to its processes by environment, and to whoever may read
    the job folder by a file of mode 0600. They are never an argument of a program, never on
    the wire, and no log or error shows them: they print as nothing.

    Listeners accept the ``previous`` one, too, if there is one: so whoever belongs to a run
    can be given another secret one by one.
    """

    __slots__ = ("_key", "previous")

    def __init__(self, key: bytes, previous: "Secret | None" = None) -> None:
        assert len(key) == SECRET_BYTES
        self._key, self.previous = key, previous

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
        words = text.split()
        try:
            keys = [bytes.fromhex(word) for word in words]
        except ValueError:
            keys = []
        if not words:
            raise UsageError(
                f"{source}: expected a secret of {_DIGITS} hexadecimal digits, got "
                "nothing; of a new run it is what `openssl rand -hex 32` prints"
            )
        if not 1 <= len(keys) <= 2 or {len(key) for key in keys} != {SECRET_BYTES}:
            raise UsageError(
                f"{source}: expected a secret of {_DIGITS} hexadecimal digits, and perhaps "
                f"the one before it, got {len(text.strip())} characters that are none"
            )
        current, *previous = keys
        return cls(current, *map(cls, previous))

    def text(self) -> str:
        """As it is handed on: 64 hexadecimal digits, and a blank and those of the previous.

        For environments and files only.
        """
        before = "" if self.previous is None else f" {self.previous.text()}"
        return f"{self._key.hex()}{before}"

    def sign(self, data: bytes) -> bytes:
        """HMAC-SHA256 of ``data`` under the secret (RFC 2104): 32 bytes."""
        return hmac.digest(self._key, data, "sha256")

    @property
    def key_id(self) -> bytes:
        """By which it can be told from other secrets, and nothing else be learned of it."""
        return self.sign(b"paceline key id")[:_KEY_ID_BYTES]

    def __eq__(self, other: object) -> bool:
        """Whether both are one secret; how long that takes tells nothing."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return "Secret(...)"


Way = Literal["local", "plain", "tls"]
"""How frames travel: as they are, on one host; by word also between hosts, with checksums;
within TLS."""


class Security(NamedTuple):
    """What closes the links of a job over TCP; others are closed by the kernel.

    Args:
        secret: both ends prove it; where one listens, its previous one does as well.
        way: "plain": without TLS wherever an address is; "tls": also on loopback, behind
            which a forwarded port may be. None: as `way_to` says.
    """

    secret: Secret | None = None
    way: Way | None = None

    @property
    def accepted(self) -> tuple[Secret, ...]:
        """The secrets of which a listener takes any; none: nothing is to be proved."""
        if self.secret is None:
            return ()
        previous = self.secret.previous
        return (self.secret,) if previous is None else (self.secret, previous)

    def way_to(self, where: TcpAddress) -> Way:
        """How frames travel to an address: without a word, beyond loopback within TLS."""
        return self.way or ("local" if where.is_loopback else "tls")


OPEN = Security()

Name = Annotated[str, msgspec.Meta(max_length=256)]
Bits = Annotated[bytes, msgspec.Meta(max_length=64)]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Who comes; ``incarnation`` is 0 for one that has none yet.

    A listener that must prove the secret does so with ``nonce`` and the secret of id
    ``key``. ``way``: a `Way`, as this end has it.
    """

    run: Name
    role: Name
    incarnation: int = 0
    version: int = PROTOCOL_VERSION
    nonce: Bits = b""
    way: Name = "local"
    key: Bits = b""


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

    ``role`` is the listener's owner; ``security`` counts over TCP. Roles of the kinds
    ``unknowing`` learn by coming which run it is.
    """

    def __init__(
        self,
        run: str,
        role: str,
        kinds: Collection[RoleKind],
        security: Security = OPEN,
        unknowing: Collection[RoleKind] = (),
    ) -> None:
        self.role = role
        self.security = security
        self._run = run
        self._kinds = kinds
        self._unknowing = unknowing

    def __call__(self, hello: Hello) -> Welcome:
        """Answer a hello, once the secret has been proved where there is one.

        Raises:
            HandshakeRefused: with the reason.
        """
        expect_same(self.role, "version", PROTOCOL_VERSION, hello.version)
        if self._run and (hello.run or role_kind(hello.role) not in self._unknowing):
            expect_same(self.role, "run", self._run, hello.run)
        if role_kind(hello.role) not in self._kinds:
            raise HandshakeRefused(
                f"{self.role} expects a role of kind {', '.join(sorted(self._kinds))}, got "
                f"{hello.role!r}: this is another role's address"
            )
        return Welcome(run=self._run or hello.run, role=self.role)


def expect_same(role: str, what: str, expected: object, got: object) -> None:
    """Compare what ``role`` has with what the other end says that it has.

    Raises:
        ForeignPeer: they differ.
    """
    if expected != got:
        raise ForeignPeer(
            f"{role} expects {what} {expected!r}, the other end has {got!r}: both must "
            "belong to one job"
        )


class Transcript(NamedTuple):
    """What both ends have seen of a handshake.

    The hello has the client's nonce, ``nonce`` is the listener's; ``place`` is where the
    listener is, and empty where that says nothing.
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
        who = (hello.version, hello.run, hello.role, hello.incarnation)
        how = (hello.nonce, hello.way, hello.key)
        # msgpack says where each part ends, so no two transcripts have the same bytes.
        return secret.sign(
            msgspec.msgpack.encode((direction, *who, *how, self.nonce, self.place, *more))
        )
