"""A job on one host as if it were on several: for benchmarks of what travels only.

Servers lend no memory, so that values go over the wire though trainers run on the same
machine. Over TCP nothing else is shared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from paceline.server.slots import published as service_lending


@contextmanager
def apart() -> Iterator[None]:
    """Servers that run inside lend nothing."""
    with mock.patch.object(service_lending, "is_supported", return_value=False):
        yield
