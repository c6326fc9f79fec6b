"""gRPC over a Unix socket as a candidate of the transport benchmark.

Unary calls whose messages are plain bytes: no protobuf between, which would copy once more.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import final

import grpc
import numpy as np

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
UNBOUNDED = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]


@final
class GrpcLink(Link):
    """Calls ``/arenas/...``."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._pulls = [channel.unary_unary(f"/arenas/pull{arena}") for arena in (0, 1)]
        self._pushes = [channel.unary_unary(f"/arenas/push{arena}") for arena in (0, 1)]

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        reply = self._pulls[arena](b"", timeout=TIMEOUT_S, wait_for_ready=True)
        np.copyto(into, np.frombuffer(reply, np.uint8))

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        request = values.tobytes()
        self._pushes[arena](request, timeout=TIMEOUT_S, wait_for_ready=True)


def serve(address: str, plan: Plan) -> None:
    """Hold the arenas until killed."""
    held = arenas(plan)

    def pulling(arena: int) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda _, __: held[arena].tobytes())

    def pushing(arena: int) -> grpc.RpcMethodHandler:
        def take(request: bytes, _: grpc.ServicerContext) -> bytes:
            np.copyto(held[arena], np.frombuffer(request, np.uint8))
            return b""

        return grpc.unary_unary_rpc_method_handler(take)

    calls = {f"pull{arena}": pulling(arena) for arena in (0, 1)}
    calls |= {f"push{arena}": pushing(arena) for arena in (0, 1)}
    server = grpc.server(ThreadPoolExecutor(max_workers=1), options=UNBOUNDED)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("arenas", calls),)
    )
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def main() -> None:
    """Be the client or the server."""
    role, place, plan, out = read_flags(__doc__ or "")
    address = f"unix:{place}/s.sock"
    if role == "server":
        serve(address, plan)
    with grpc.insecure_channel(address, options=UNBOUNDED) as channel:
        write_result(out, measure(GrpcLink(channel), plan))


if __name__ == "__main__":
    main()
