"""A handshake from both ends, message by message; see `handshake` for what is said.

Pure: nonces are arguments. One thread at a time; sockets are elsewhere.
"""

import hmac
from collections.abc import Sequence
from typing import final

import msgspec

from paceline.errors import ForeignPeer, FrameRefused
from paceline.transport.handshake import (
    NONCE_BYTES,
    Challenge,
    FromListener,
    Hello,
    HelloCheck,
    Proof,
    Secret,
    Transcript,
    Way,
    Welcome,
    expect_same,
)

_OTHER_SECRET = "both must belong to one run and have its secret (PACELINE_SECRET)"
_BETWEEN = (
    f"{_OTHER_SECRET}, and be in touch with each other: nobody in between who ends TLS, "
    "and without TLS no address translation in between"
)
_WAYS: dict[str, str] = {
    "local": "without TLS, on one host",
    "plain": "without TLS, with checksums (--plain)",
    "tls": "by TLS",
}


def check_welcome(hello: Hello, welcome: Welcome) -> None:
    """Compare what has been reached with what was meant.

    Raises:
        ForeignPeer: it is of another run or version.
    """
    expect_same(hello.role, "version", hello.version, welcome.version)
    if hello.run:  # else it learns which one by joining
        expect_same(hello.role, "run", hello.run, welcome.run)


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
            self.hello = msgspec.structs.replace(hello, nonce=nonce, key=secret.key_id)

    def reached(self, place: bytes) -> None:
        """Before the hello is said: where the listener is, as it has just shown."""
        self._place = place

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
                f"the proof does not hold: {_BETWEEN}"
            )


@final
class Reception:
    """The listener's side of one handshake.

    With secrets both ends prove that which the hello names; ``nonce`` is fresh, frames came
    this ``way``, and this end is at ``place``.
    """

    def __init__(
        self,
        check: HelloCheck,
        secrets: Sequence[Secret],
        place: bytes,
        nonce: bytes,
        way: Way = "local",
    ) -> None:
        self._check = check
        self._secrets = {secret.key_id: secret for secret in secrets}  # {key id: secret}
        self._secret: Secret | None = None  # that which is to be proved, once it was named
        self._place = place
        self._nonce = nonce
        self._way = way
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
            return self._challenge(message) if self._secrets else self._check(message)
        if self._secret is None or hello is None or not isinstance(message, Proof):
            raise FrameRefused(f"expected a hello, got {type(message).__name__}")
        transcript = Transcript(hello, self._nonce, self._place)
        if not hmac.compare_digest(transcript.client_proof(self._secret), message.proof):
            raise ForeignPeer(
                f"{self._check.role} expects proof of the run's secret, and that of "
                f"{hello.role!r} does not hold: {_BETWEEN}"
            )
        welcome = self._check(hello)
        proof = transcript.listener_proof(self._secret, welcome)
        return msgspec.structs.replace(welcome, proof=proof)

    def _challenge(self, hello: Hello) -> Challenge:
        role = self._check.role
        if hello.way != self._way:
            raise ForeignPeer(
                f"{role} is reached {_WAYS[self._way]}, and {hello.role!r} comes "
                f"{_WAYS.get(hello.way, repr(hello.way))}: give all processes of a job "
                "--plain, or none"
            )
        if len(hello.nonce) != NONCE_BYTES:
            raise ForeignPeer(
                f"{role} expects proof of the run's secret, {hello.role!r} has none to "
                "offer: set PACELINE_SECRET"
            )
        self._secret = self._secrets.get(hello.key)
        if self._secret is None:
            got = hello.key.hex() or "none"
            accepted = " and ".join(key.hex() for key in self._secrets)
            raise ForeignPeer(
                f"{role} expects proof of the run's secret, and that of {hello.role!r} "
                f"does not hold: it is for the secret of key id {got}, "
                f"those accepted have {accepted}: {_OTHER_SECRET}"
            )
        return Challenge(self._nonce)
