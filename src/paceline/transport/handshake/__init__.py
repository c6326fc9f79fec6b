"""Who may come in: the first frames of every connection.

::

    handshake   the frames; the secret that all roles of one run share
    greeting    their order, at both ends; proof that one knows the secret
"""

from paceline.transport.handshake.greeting import NONCE_BYTES, Introduction, Reception
from paceline.transport.handshake.handshake import (
    FROM_CLIENT,
    Farewell,
    Hello,
    HelloCheck,
    Proof,
    Secret,
    Welcome,
    check_welcome,
    decode_answer,
    decode_farewell,
)
