"""The corridor between roles: requests and replies, with tensors as raw bytes.

Read in this order::

    address     "unix:/run/x.sock", "inproc:name": the address chooses the transport
    frames      one frame as bytes: preamble, header, raw buffers; limits (pure)
    handshake   who may come in: Hello, Welcome, and the reasons why not
    service     what a listener calls: Peer, Service, Reply
    connection  what a client holds: submit, wait_reply, call
    requests    the replies that one connection still waits for
    receiving   frames out of a non-blocking socket, piece by piece
    sending     frames into a non-blocking socket, bounded by a credit
    sockets     the client's end of a Unix socket
    binding     taking a socket path, also after a dead process
    link        the listener's end of one connection
    listener    a place where a service can be reached
    unix_listener   many connections on few threads
    inprocess   the same without sockets: embedded jobs and tests
    opening     `connect` and `listen`: the address chooses
    serial      one thing at a time, in order, on whoever comes by

No message type of the house is known here; decoders are handed in.
"""
