"""Who may come in: the first frames of every connection.

::

    secret      256 bits that all roles of one run share
    proof       that one knows them, without showing them
    handshake   the frames
    greeting    their order, at both ends
"""

from paceline.transport.handshake.greeting import Introduction, Reception
from paceline.transport.handshake.handshake import (
    FROM_CLIENT,
    Farewell,
    Hello,
    HelloCheck,
    Proof,
    Welcome,
    admit,
    check_welcome,
    decode_answer,
    decode_as,
)
from paceline.transport.handshake.proof import NONCE_BYTES
from paceline.transport.handshake.secret import Secret

__all__ = [
    "FROM_CLIENT",
    "NONCE_BYTES",
    "Farewell",
    "Hello",
    "HelloCheck",
    "Introduction",
    "Proof",
    "Reception",
    "Secret",
    "Welcome",
    "admit",
    "check_welcome",
    "decode_answer",
    "decode_as",
]
