"""The corridor between roles: requests and replies, with tensors as raw bytes.

Read in this order::

    address     "unix:/run/x.sock", "tcp:127.0.0.1:4711", "inproc:name"
    frames      one frame as bytes: preamble, header, raw buffers; limits (pure)
    secret      what all roles of a run know, and nobody else
    handshake   who may come in: what is said, and the reasons why not
    proof       knowing the secret without showing it (pure)
    greeting    the order of a handshake's frames, at both ends (pure)
    service     what a listener calls: Peer, Service, Reply
    connection  what a client holds: submit, wait_reply, call
    requests    the replies that one connection still waits for
    receiving   frames out of a non-blocking socket, piece by piece
    sending     frames into a non-blocking socket, bounded by a credit
    stream_connection   the client's end of a socket
    door        what is different between kinds of sockets
    unix_socket     a path, a folder that is only ours, the kernel's word for who comes
    tcp_socket      a port, and a proof of the run's secret
    link        the listener's end of one connection
    listener    a place where a service can be reached
    complaints  what it logs about those it turns away
    stream_listener     many connections on few threads
    inprocess   the same without sockets: embedded jobs and tests
    opening     `connect` and `listen`: the address chooses

No message type of the house is known here; decoders are handed in.
"""
