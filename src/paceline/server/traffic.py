"""How many bytes of gradients and values a server takes and gives, before and after coding.

Every push and answer counts as often as it travels. Without a codec both numbers are the
same. Pure.
"""

from typing import Literal, final

Kind = Literal["gradient", "value"]


@final
class Traffic:
    """Counts by part.

    Attributes:
        counters: ``part-0.gradient_bytes``, ``part-0.gradient_bytes_sent``, and the same of
            values: as float32 would be, and as they travelled.
    """

    def __init__(self) -> None:
        """Nothing has travelled."""
        self.counters: dict[str, int] = {}

    def note(self, part: int, kind: Kind, plain_bytes: int, sent_bytes: int) -> None:
        """Numbers of a part have travelled."""
        name = f"part-{part}.{kind}_bytes"
        sent = f"{name}_sent"
        self.counters[name] = self.counters.get(name, 0) + plain_bytes
        self.counters[sent] = self.counters.get(sent, 0) + sent_bytes
