"""Signs of life while the user's loop computes.

Silence of one time-out means death, and a step may take longer than that. So a thread
beats over the coordinator's connection whenever the loop has not talked to it for a while.
It reads nothing and decides nothing: a new timeline or a stop is found out by the
loop itself.

Waits: for the coordinator's answer; between beats.
"""

import logging
import threading
from typing import final

from paceline.errors import TransportError
from paceline.timing import Clock
from paceline.trainer.client import Driver
from paceline.trainer.peers import PeerLink

TELL_EVERY_S = 10.0  # how long batches take
DOOR_EVERY_S = 2.0  # where the door is: a coordinator that has restarted knows it again

_log = logging.getLogger("paceline.trainer")


@final
class Heartbeat:
    """Beats for one trainer until it is stopped."""

    def __init__(
        self, driver: Driver, clock: Clock, beat_s: float, link: PeerLink | None = None
    ) -> None:
        """Beat after ``beat_s`` of silence; tell of the link's door."""
        self._driver, self._link, self._clock = driver, link, clock
        self._beat_s = beat_s
        self._told_s = self._told_door_s = clock.now_s()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="trainer-heartbeat", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def beat_if_due(self) -> bool:
        """Beat if the loop has been silent; false if it has not, or nobody answered."""
        if self._clock.now_s() - self._driver.asked_s < self._beat_s:
            return False
        try:
            self._driver.beat()
        except TransportError as error:
            _log.debug("no answer to a beat: %s", error)
            return False
        return True

    def stop(self, timeout_s: float) -> None:
        """End the thread; may be repeated."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._beat_s / 2):
            try:
                self.beat_if_due()
                self._tell_if_due()
                self._tell_door_if_due()
                if self._link is not None:
                    self._link.look()
            except Exception:  # noqa: BLE001  (no surprise may end the signs of life)
                _log.exception("a beat failed")

    def _tell_if_due(self) -> None:
        now = self._clock.now_s()
        if now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._driver.tell_computed()

    def _tell_door_if_due(self) -> None:
        now = self._clock.now_s()
        if self._link is not None and now - self._told_door_s >= DOOR_EVERY_S:
            self._told_door_s = now
            self._link.tell_open()
