"""The corridor between roles: requests and replies, with tensors as raw bytes.

Its inside, from the bottom::

    address      "unix:/run/x.sock", "tcp:127.0.0.1:4711", "inproc:name"
    frames       one frame as bytes: preamble, header, raw buffers; limits (pure)
    handshake    who may come in: secrets, and what is said and proved
    greeting     a handshake from both ends
    shared_memory  memory between processes of one host; waiting for a word of it
    mailbox      buffers of requests and replies that lie there
    service      what a listener calls: Peer, Service, Reply
    connection   what a client holds: submit, wait_reply, call
    requests     the replies that one connection still waits for
    listener     a place where a service can be reached
    streams/     Unix sockets and TCP, both ends
    inprocess    the same without sockets: embedded jobs and tests
    opening      `connect` and `listen`: the address chooses

No message type of the house is known here; decoders are handed in.
"""
