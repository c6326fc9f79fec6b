"""A job on one host as if it were on several, and codecs: for what travels only.

Servers lend no memory, so that values go over the wire though trainers run on the same
machine. Over TCP nothing else is shared. Within TLS, as links between machines are, a
forwarder may stand where somebody is told to be: his address is no part of what is proved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from paceline.server.slots import published as service_lending
from paceline.transport.handshake import Security

APART = "benchmarks.harness.apart_now"  # imported, it is so for good
WITHIN_TLS = "benchmarks.harness.within_tls_now"  # the same
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


@contextmanager
def within_tls() -> Iterator[None]:
    """Links that are made inside over TCP are within TLS, on loopback, too."""
    with mock.patch.object(Security, "way_to", return_value="tls"):
        yield
