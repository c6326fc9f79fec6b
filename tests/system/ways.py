"""The ways in which the processes of a job on one machine talk."""

from typing import NamedTuple

import pytest

from paceline.launch.job.addresses import Transport
from paceline.transport.shared_memory import SHARED_MEMORY


class Way(NamedTuple):
    """Over what requests go, and whether large ones lie in shared memory."""

    transport: Transport
    shared_memory: str

    def choose(self, patch: pytest.MonkeyPatch) -> Transport:
        """Have jobs that begin from now on talk like this; the transport to give them."""
        patch.setenv(SHARED_MEMORY, self.shared_memory)
        return self.transport


WAYS = {
    "shared memory": Way("unix", "on"),
    "unix": Way("unix", "off"),
    "tcp": Way("tcp", "off"),
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
EACH_SOCKET = pytest.mark.parametrize("way", list(WAYS.values())[1:], ids=list(WAYS)[1:])
