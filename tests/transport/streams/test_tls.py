"""TLS between two ends that do not wait, and what a listener does with it."""

import hashlib
import select
import socket
import ssl
import subprocess
import sys

import msgspec
import pytest

from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    FrameRefused,
    PeerLost,
    UsageError,
)
from paceline.transport.frames import DATA_LIMITS
from paceline.transport.listener import Bounds
from paceline.transport.opening import connect
from paceline.transport.streams.pieces import wait_events
from paceline.transport.streams.tls import (
    Certificate,
    sealed,
)
from tests.transport.bare import bare_client, hello_bytes
from tests.transport.corridors import (
    CLOCK,
    HELLO,
    PATIENCE_S,
    Memory,
    Said,
    TcpCorridor,
    say,
)
from tests.transport.streams.pairs import receive_all, send_all, tcp_pair, tls_pair

# ------------------------------------------------------------- the certificate


def test_a_listener_shows_the_certificate_whose_hash_it_knows() -> None:
    certificate = Certificate("a test")
    client, listener = tls_pair(certificate)
    shown = client._tls.getpeercert(binary_form=True)
    assert shown is not None
    assert client.shake() == certificate.place == hashlib.sha256(shown).digest()
    assert client._tls.version() == "TLSv1.3"
    assert Certificate("another").place != certificate.place
    client.close()
    listener.close()


def test_nobody_comes_back_by_a_ticket() -> None:
    client, listener = tls_pair()
    send_all(listener, b"x")
    assert receive_all(client, 1) == b"x"
    assert client._tls.session is not None
    assert not client._tls.session.has_ticket
    client.close()
    listener.close()


def test_older_tls_is_refused(tls: TcpCorridor, service: Memory) -> None:
    listener = tls.listen(service)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    sock = socket.create_connection(tls.where, PATIENCE_S)
    with old.wrap_socket(sock, do_handshake_on_connect=False) as inside:
        with pytest.raises(ssl.SSLError):
            inside.do_handshake()
        assert socket.socket.recv(inside, 1) == b""
    tls.close()
    assert listener.counters()["malformed"] == 1


def test_without_the_library_a_refusal_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, service: Memory, tls: TcpCorridor
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"pip install 'paceline\[tls\]'; or, .* --plain"):
        tls.listen(service)
    tls.close()
    plain = TcpCorridor(way="plain")  # by word it needs none, nor does a client
    plain.listen(service)
    assert say(plain.connect(), "x") == Said("x")
    plain.close()


def test_a_client_needs_no_library(
    monkeypatch: pytest.MonkeyPatch, service: Memory, tls: TcpCorridor
) -> None:
    tls.listen(service)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert say(tls.connect(), "x") == Said("x")
    tls.close()


LOOPBACK_ONLY = """
import sys
import paceline
assert "ssl" not in sys.modules, "import paceline"
from tests.transport.corridors import Memory, TcpCorridor, say
corridor = TcpCorridor()
corridor.listen(Memory())
say(corridor.connect(), "x")
corridor.close()
for name in ("ssl", "cryptography"):
    assert name not in sys.modules, name
"""


@pytest.mark.slow
def test_on_loopback_neither_tls_nor_its_library_is_loaded() -> None:
    found = subprocess.run([sys.executable, "-c", LOOPBACK_ONLY], capture_output=True)
    assert found.returncode == 0, found.stderr.decode()


# ------------------------------------------------------------- one end without TLS


def test_plain_client_at_a_tls_listener_is_told_so(
    tls: TcpCorridor, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    listener = tls.listen(service)
    for way in ("plain", None):
        security = tls.security._replace(way=way)
        with pytest.raises(ForeignPeer, match=r"one end speaks TLS .* --plain, or none"):
            connect(tls.address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, security)
    tls.close()
    assert listener.counters()["refused"] == 2
    assert "one end speaks TLS" in caplog.text


def test_tls_client_at_a_plain_listener_is_told_so(service: Memory) -> None:
    plain = TcpCorridor(way="plain")
    listener = plain.listen(service)
    security = plain.security._replace(way="tls")
    for _ in range(50):  # the answer is there before, or after, the client looks
        with pytest.raises(ForeignPeer, match=r"one end speaks TLS .* --plain, or none"):
            connect(plain.address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, security)
    plain.close()
    assert listener.counters()["malformed"] == 50


def test_another_program_is_no_listener_of_the_job() -> None:
    mine, theirs = tcp_pair()
    client = sealed(mine)
    assert client.shake() is None
    theirs.send(b"220 mail.example.org ESMTP ready\r\n")
    assert wait_events(client, select.POLLIN, PATIENCE_S)
    with pytest.raises(FrameRefused, match="expected TLS, got b'220 '"):
        client.shake()
    client.close()
    theirs.close()


def test_a_listener_that_says_nothing_is_not_waited_for(tls: TcpCorridor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp:127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DeadlineExceeded, match="no answer in time to the beginning"):
            connect(address, HELLO, Said, DATA_LIMITS, CLOCK, 0.05, tls.security)
    tls.release()


def test_a_listener_that_hangs_up_is_lost() -> None:
    mine, theirs = tcp_pair()
    client = sealed(mine)
    assert client.shake() is None
    theirs.close()
    assert wait_events(client, select.POLLIN, PATIENCE_S)
    with pytest.raises(PeerLost):
        client.shake()
    client.close()


# ------------------------------------------------------------- strangers


def client_hello() -> bytes:
    """How TLS begins."""
    mine, theirs = tcp_pair()
    client = sealed(mine)
    assert client.shake() is None
    assert select.select([theirs], [], [], PATIENCE_S)[0]
    data = theirs.recv(1 << 16)
    client.close()
    theirs.close()
    return data


@pytest.mark.parametrize("num_bytes", [0, 1, 100, None])
def test_who_does_not_finish_tls_is_put_out_and_holds_nobody_up(
    tls: TcpCorridor, service: Memory, num_bytes: int | None
) -> None:
    bounds = Bounds(num_threads=1, handshake_s=0.2)
    listener = tls.listen(service, bounds=bounds)
    begun = client_hello()[:num_bytes]
    strangers = [bare_client(tls) for _ in range(3)]
    for stranger in strangers:
        stranger.send(begun)
    assert say(tls.connect(), "meanwhile") == Said("meanwhile")
    for stranger in strangers:
        with stranger.socket:
            while stranger.socket.recv(1 << 16):
                pass
    tls.close()
    assert listener.counters()["mute"] == 3
    assert len(service.gone) == 1


def test_who_opens_tls_byte_by_byte_gets_in(tls: TcpCorridor, service: Memory) -> None:
    tls.listen(service, bounds=Bounds(num_threads=1))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    inside = context.wrap_bio(incoming, outgoing)
    with socket.create_connection(tls.where, PATIENCE_S) as sock:
        is_done = False
        while not is_done:
            try:
                inside.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))
            if not is_done:
                incoming.write(sock.recv(1 << 16))
        inside.write(hello_bytes(msgspec.structs.replace(HELLO, way="tls")))
        sock.sendall(outgoing.read())
        incoming.write(sock.recv(1 << 16))
        assert b"set PACELINE_SECRET" in inside.read(1 << 16)  # within TLS
    tls.close()


def test_garbage_instead_of_tls_is_refused_in_words(
    tls: TcpCorridor, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    listener = tls.listen(service)
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"):
        stranger = bare_client(tls)
        with stranger.socket:
            stranger.send(garbage)
            while stranger.socket.recv(1 << 16):
                pass
    tls.close()
    assert listener.counters()["malformed"] == 2
    assert "expected TLS, got b'GET '" in caplog.text
    assert "expected TLS 1.3" in caplog.text
