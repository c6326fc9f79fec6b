"""The run's secret: 256 random bits that all roles of one run share, and nobody else.

It travels from the launcher to its processes by environment, and to whoever may read the
job folder by a file of mode 0600. It is never an argument of a program, never on the wire
(see `proof`), and no log or error shows it: it prints as nothing.

Pure, but for `Secret.fresh`.
"""

import hmac
import secrets
from typing import final

from paceline.errors import UsageError

SECRET_BYTES = 32
_DIGITS = 2 * SECRET_BYTES


@final
class Secret:
    """A key that can sign and be handed on, but does not print."""

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
