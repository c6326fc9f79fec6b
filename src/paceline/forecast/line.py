"""Whatever serves one at a time, in the order of coming: a processor, one way of a cable.

Pure: time is an argument.
"""

from typing import final


@final
class Line:
    """Who comes waits until all who came before are served.

    Attributes:
        free_s: when all who have come are served.
        busy_s: seconds of serving so far.
        waited_s: seconds that all together have waited to be served.
        num_served: how many have come.
    """

    def __init__(self) -> None:
        self.free_s = self.busy_s = self.waited_s = 0.0
        self.num_served = 0

    def take(self, come_s: float, service_s: float) -> float:
        """Serve one who comes at a moment, not before the last one did; when it is done."""
        start_s = come_s
        if self.free_s > come_s:
            start_s = self.free_s
            self.waited_s += start_s - come_s
        self.busy_s += service_s
        self.num_served += 1
        self.free_s = start_s + service_s
        return self.free_s

    def lengthen(self, service_s: float) -> float:
        """Serve one more together with the last one; when both are done."""
        self.busy_s += service_s
        self.num_served += 1
        self.free_s += service_s
        return self.free_s
