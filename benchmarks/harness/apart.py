"""A job on one host as if it were on several, and codecs: for what travels only.

Servers lend no memory, so that values go over the wire though trainers run on the same
machine. Over TCP nothing else is shared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from paceline.server.slots import published as service_lending

APART = "benchmarks.harness.apart_now"  # imported, it is so for good
LOSSLESS = ""  # no codec
CODECS = ("bf16", "fp16", "int8", "int4", "top10%", "top1%")


def pace_of(codec: str) -> str:
    """The pace as a command line says it."""
    return f"sync:codec={codec}" if codec else "sync"


def who_of(codec: str) -> str:
    """For the tables."""
    return codec or "no codec"


@contextmanager
def apart() -> Iterator[None]:
    """Servers that run inside lend nothing."""
    with mock.patch.object(service_lending, "is_supported", return_value=False):
        yield
