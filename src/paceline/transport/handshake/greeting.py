"""The order of a handshake's frames at both ends, and the proof that one knows the secret.

::

    Introduction   the client:    hello -> answer (Challenge -> Proof, Welcome -> in)
    Reception      the listener:  answer (Hello -> Challenge or Welcome, Proof -> Welcome)

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

Pure: nonces are arguments. One thread at a time; sockets are elsewhere.
"""

import hmac
from typing import NamedTuple, final

import msgspec

from paceline.errors import ForeignPeer, FrameRefused
from paceline.transport.handshake.handshake import (
    Challenge,
    FromListener,
    Hello,
    HelloCheck,
    Proof,
    Secret,
    Welcome,
    check_welcome,
)

NONCE_BYTES = 32

_CLIENT = "paceline handshake 1: who connects"
_LISTENER = "paceline handshake 1: who listens"


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


def is_same_proof(expected: bytes, got: bytes) -> bool:
    """Whether a proof holds; how long that takes does not tell how much of it does."""
    return hmac.compare_digest(expected, got)


_OTHER_SECRET = (
    "both must belong to one run and have its secret (PACELINE_SECRET), with no address "
    "translation in between"
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
        if not is_same_proof(expected, welcome.proof):
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
        if not is_same_proof(transcript.client_proof(self._secret), message.proof):
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
