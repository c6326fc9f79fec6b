"""Calls of a Ray actor as a candidate of the transport benchmark.

Ray starts its own processes; large arguments and results go through its object store.
"""

from typing import final

import numpy as np
import ray

from benchmarks.transport.timing import (
    Bytes,
    Link,
    Plan,
    arenas,
    measure,
    read_flags,
    write_result,
)

STORE_BYTES = 1 << 30


@final
class Arenas:
    """What the actor holds."""

    def __init__(self, plan: Plan) -> None:
        self._arenas = arenas(Plan(*plan))

    def fetch(self, arena: int) -> Bytes:
        """An arena's bytes."""
        return self._arenas[arena]

    def store(self, arena: int, values: Bytes) -> None:
        """Take an arena's bytes."""
        np.copyto(self._arenas[arena], values)


@final
class RayLink(Link):
    """Calls the actor."""

    def __init__(self, plan: Plan) -> None:
        self._actor = ray.remote(Arenas).options(num_cpus=1).remote(tuple(plan))

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        np.copyto(into, ray.get(self._actor.fetch.remote(arena)))

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        ray.get(self._actor.store.remote(arena, values))


def main() -> None:
    """Be the client; the actor is the server."""
    _, place, plan, out = read_flags(__doc__ or "")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=STORE_BYTES,
        _temp_dir=place,
    )
    try:
        write_result(out, measure(RayLink(plan), plan))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
