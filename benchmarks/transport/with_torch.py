"""torch RPC (TensorPipe) as a candidate of the transport benchmark.

Run as a module of its name, since functions that are called remotely are found by it.
"""

import os
from typing import final

import torch
from torch.distributed import rpc

from benchmarks.transport import with_torch as here
from benchmarks.transport.timing import (
    Bytes,
    Link,
    Plan,
    arenas,
    measure,
    read_flags,
    write_result,
)

TIMEOUT_S = 60.0

held: list[torch.Tensor] = []  # the server's arenas


def fetch(arena: int) -> torch.Tensor:
    """At the server: an arena's bytes."""
    return held[arena]


def store(arena: int, values: torch.Tensor) -> None:
    """At the server: take an arena's bytes."""
    held[arena].copy_(values)


@final
class TorchLink(Link):
    """Calls the server's functions."""

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        torch.from_numpy(into).copy_(rpc.rpc_sync("server", here.fetch, (arena,)))

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        rpc.rpc_sync("server", here.store, (arena, torch.from_numpy(values)))


def join(name: str, place: str) -> None:
    """Meet the other end; it may come later."""
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=2,
        rpc_timeout=TIMEOUT_S,
        init_method=f"file://{place}/meeting",
    )
    number = ("client", "server").index(name)
    rpc.init_rpc(name, rank=number, world_size=2, rpc_backend_options=options)


def main() -> None:
    """Be the client or the server."""
    role, place, plan, out = read_flags(__doc__ or "")
    torch.set_num_threads(1)
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    here.held.extend(torch.from_numpy(array) for array in arenas(Plan(*plan)))
    join(role, place)
    if role == "client":
        write_result(out, measure(TorchLink(), plan))
    rpc.shutdown()


if __name__ == "__main__":
    here.main()
