"""Sockets: Unix and TCP, from both ends.

::

    connection   the client's end
    channel      between two processes that were made as a pair
    listener     many connections on few threads; link: one of them
    receiving    frames out of a socket
    sending      frames into one, bounded by a credit
    unix_socket, tcp_socket, door   what is different between the two
    complaints   what is logged of those who are turned away

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.transport.streams.channel import FrameChannel, Received
    from paceline.transport.streams.connection import connect_stream
    from paceline.transport.streams.door import Door
    from paceline.transport.streams.listener import StreamListener
    from paceline.transport.streams.receiving import Frame, Place, Placed
    from paceline.transport.streams.tcp_socket import (
        TcpDoor,
        hold_port,
        place_reached,
        reach_tcp,
    )
    from paceline.transport.streams.unix_socket import UnixDoor, reach_unix

__all__ = [
    "Door",
    "Frame",
    "FrameChannel",
    "Place",
    "Placed",
    "Received",
    "StreamListener",
    "TcpDoor",
    "UnixDoor",
    "connect_stream",
    "hold_port",
    "place_reached",
    "reach_tcp",
    "reach_unix",
]

_LAZY = {  # {name: the module that defines it}
    "Door": "paceline.transport.streams.door",
    "Frame": "paceline.transport.streams.receiving",
    "FrameChannel": "paceline.transport.streams.channel",
    "Place": "paceline.transport.streams.receiving",
    "Placed": "paceline.transport.streams.receiving",
    "Received": "paceline.transport.streams.channel",
    "StreamListener": "paceline.transport.streams.listener",
    "TcpDoor": "paceline.transport.streams.tcp_socket",
    "UnixDoor": "paceline.transport.streams.unix_socket",
    "connect_stream": "paceline.transport.streams.connection",
    "hold_port": "paceline.transport.streams.tcp_socket",
    "place_reached": "paceline.transport.streams.tcp_socket",
    "reach_tcp": "paceline.transport.streams.tcp_socket",
    "reach_unix": "paceline.transport.streams.unix_socket",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
