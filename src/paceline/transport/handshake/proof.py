"""Proof that one knows the run's secret, without showing it.

::

    transcript = [version, run, role, incarnation, nonce of the client,
                  nonce of the listener, where the listener is]
    sign(parts)      = HMAC-SHA256(secret, parts)
    client's proof   = sign(["... who connects", transcript])
    listener's proof = sign(["... who listens", transcript, its version, run and role])

What each part is there for:

* both nonces are fresh, so what was recorded proves nothing in another connection;
* the direction is named, so neither end can be made to prove to itself what it was asked;
* role, run and incarnation are in it, so nobody in between can change who comes;
* so is the address at which the listener was reached, as both ends see it: a proof that was
  made for one listener proves nothing to another.

The client proves first: a listener says nothing to those who cannot. Comparing takes the
same time wherever two proofs differ.

Challenge and response as in RFC 2195 and ISO/IEC 9798-4; what follows the proof is neither
encrypted nor signed.

Pure.
"""

import hmac
from typing import NamedTuple

import msgspec

from paceline.transport.handshake.handshake import Hello, Welcome
from paceline.transport.handshake.secret import Secret

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
