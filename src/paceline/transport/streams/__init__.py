"""Sockets: Unix and TCP, from both ends.

::

    connection   the client's end
    channel      between two processes that were made as a pair
    listener     many connections on few threads; link: one of them
    pieces       frames through a socket, piece by piece
    checks       checksums of frames between hosts, where there is no TLS
    tls          TLS within the socket, where there is; sealed: as the others see it
    sockets      doors: what is different between Unix and TCP
    reaching     the way to them; names that are looked up
    swallowed    whether only small frames pass
    complaints   what is logged of those who are turned away
"""

from paceline.transport.streams.channel import FrameChannel, Received
from paceline.transport.streams.connection import connect_stream
from paceline.transport.streams.listener import StreamListener
from paceline.transport.streams.reaching import own_host, reach
from paceline.transport.streams.sockets import (
    Door,
    TcpDoor,
    UnixDoor,
    hold_port,
    peer_process,
    place_reached,
)
