"""A place where a service can be reached, and what it may spend."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Self

from paceline.transport.connection import MessageType

RequestType = Callable[[str], MessageType]
"""Which messages a role may send: role id -> message, or union of messages."""


class Bounds(NamedTuple):
    """What a listener spends.

    Args:
        num_threads: threads that read and call the service.
        num_connections: more are turned away, once it is known who they are.
        num_strangers: connections of which that is not known yet. One more pushes out the
            oldest, so a crowd that says nothing keeps nobody else from saying something.
        credit_bytes: unsent replies of one connection, not counting the first; a peer that
            leaves more unread is closed.
        handshake_s: time to begin TLS, to say hello, and to prove the secret.
        patience_s: how long a reply waits for a peer that reads along before the rest of
            it is copied and queued.
        num_together: requests that one thread takes at once, if so many are there; see
            `Gathers`.
    """

    num_threads: int = 4
    num_connections: int = 4096
    num_strangers: int = 256
    credit_bytes: int = 64 << 20
    handshake_s: float = 5.0
    patience_s: float = 0.02
    num_together: int = 1


DEFAULT_BOUNDS = Bounds()


class Listener(ABC):
    """A place where a service can be reached; listening begins with construction."""

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """How connections went so far: {what: count}.

        ``accepted``; turned away: ``refused`` (hello or proof), ``crowded``, ``stranger``
        (another user), ``mute`` (no hello or proof in time), ``displaced`` (by younger
        strangers); ended: ``gone``, ``slow`` (does not read), ``malformed``, ``failed``
        (the service raised).
        """

    @abstractmethod
    def close(self, timeout_s: float = 5.0) -> None:
        """Stop: the address is free, connections are closed, `disconnected` was called.

        Replies not yet taken by the kernel are lost. May be repeated.

        Raises:
            DeadlineExceeded: the service is still busy in one of the threads.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
