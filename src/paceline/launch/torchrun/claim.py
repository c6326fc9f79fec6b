"""Which machine leads: all agree in torchrun's own store.

::

    add(claims, 1) = 1           one machine finds that it is the first: it leads
    open: address, secret        it listens there: the others join
    over: how                    the job has ended: who comes later is told so

Whoever reaches that store may run code in torchrun's own processes, which read objects by
pickle from it: a secret that lies there is as safe as torchrun is.

Waits: for the store, and for who leads, with deadlines.
"""

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Literal, final

import msgspec

from paceline.errors import JobFailed
from paceline.timing import Clock, Deadline
from paceline.transport.address import TcpAddress

ANSWER_S = 30.0
OVER_S = 5.0  # hosts hear of the end a little before
OPEN_S = 120.0  # from the claim until who leads listens
LOOK_EVERY_S = 0.2


class Leading(msgspec.Struct, frozen=True):
    """What the key says; ``secret`` is empty where all have it beforehand."""

    state: Literal["claimed", "open", "over"]
    address: str = ""
    secret: str = ""
    is_plain: bool = False
    text: str = ""  # over: how
    status: int = 0


@final
class ClaimStore:
    """The store, as one machine has it."""

    def __init__(self, store: TcpAddress, run: str, clock: Clock) -> None:
        """Connect to it; ``run`` is torchrun's.

        Raises:
            JobFailed: nobody answers there.
        """
        # A machine that is alone needs no torch beside its trainers.
        from torch.distributed import (  # type: ignore[attr-defined]  # noqa: PLC0415
            TCPStore,
        )

        self._where, self._clock = store, clock
        self._key = f"paceline/{run}/launcher"
        try:
            self._store = TCPStore(
                store.host,
                store.port,
                is_master=False,
                timeout=timedelta(seconds=ANSWER_S),
                wait_for_workers=False,
            )
        except RuntimeError as error:
            raise self._failed(error) from error

    def claim(self) -> bool:
        """Whether this machine is the first, and leads.

        Raises:
            JobFailed: the store does not answer.
        """
        claimed = msgspec.json.encode(Leading("claimed")).decode()
        try:
            if self._store.add(f"{self._key}/claims", 1) != 1:
                return False
            self._store.set(self._key, claimed)
        except RuntimeError as error:
            raise self._failed(error) from error
        return True

    def tell(self, claim: Leading) -> None:
        """Say how it stands, who leads; a store that is gone has nobody who asks."""
        with suppress(RuntimeError):
            self._store.set(self._key, msgspec.json.encode(claim).decode())

    def wait_told(self) -> Leading:
        """What who leads has said, once that is more than that it does.

        Raises:
            JobFailed: it says nothing, or the store does not answer.
        """
        deadline, pause = Deadline(self._clock, OPEN_S), threading.Event()
        while not deadline.is_over():
            claim = self.told()
            if claim is not None and claim.state != "claimed":
                return claim
            pause.wait(LOOK_EVERY_S)
        raise JobFailed(
            f"another machine of this torchrun was to lead, and has not listened within "
            f"{OPEN_S:g} s: see what is said there"
        )

    def wait_over(self) -> Leading | None:
        """How the job has ended, once who leads has said so; None: it does not."""
        deadline, pause = Deadline(self._clock, OVER_S), threading.Event()
        while not deadline.is_over():
            with suppress(JobFailed):
                claim = self.told()
                if claim is not None and claim.state == "over":
                    return claim
            pause.wait(LOOK_EVERY_S)
        return None

    def told(self) -> Leading | None:
        """What is said now.

        Raises:
            JobFailed: the store does not answer.
        """
        try:
            if not self._store.check([self._key]):
                return None
            return msgspec.json.decode(self._store.get(self._key), type=Leading)
        except RuntimeError as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> JobFailed:
        return JobFailed(f"torchrun's store at {self._where} does not answer: {error}")
