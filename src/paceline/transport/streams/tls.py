"""TLS 1.3 on sockets that do not block, and the certificate of one listener.

A listener makes a key and a certificate for itself when it begins, and forgets them at its
end; nobody vouches for it, and nobody is asked to. TLS gives secrecy and integrity between
two ends, the run's secret says who they are, and the certificate's hash in its proof
(`paceline.transport.handshake`) that no third one is between them. So there is no CA, no
file, and no clock that must be right.

One TLS object is used by several threads, which OpenSSL does not bear: each call on it is
made under a lock, none of them waits, and whoever waits does so outside.

::

    reading wants to read     BlockingIOError, until the socket can be read
    reading wants to write    BlockingIOError, until the socket can be written (rare)

and the same of writing the other way round; `TlsSocket.needs` tells those who poll.

OpenSSL opens records of 16 KiB, of which a reader may take a part: the rest makes no poll
awake, so who polls asks `TlsSocket.has_unread` before.

Shaking hands needs no call of its own at a listener: whoever receives goes on with it, as
far as it gets, and finds nothing to receive before it is done. First of all one byte is
looked at: an end that speaks no TLS is told so, in words that it understands.

Waits: for nothing. Any thread may call; one at a time receives.
"""

import datetime as dt
import functools
import hashlib
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterable
from typing import final

from paceline.errors import ForeignPeer, FrameRefused, PeerLost, UsageError
from paceline.transport.frames import (
    MAGIC,
    NO_TLS_HERE,
    TLS_BEGINNING,
    Kind,
    Preamble,
    encode_preamble,
)
from paceline.transport.streams.sealed import Sealed

RECORD_BYTES = 16 << 10
MOST_AT_ONCE = 4 * RECORD_BYTES  # sealed under the lock, while nobody can read
_ALERT = b"\x15"
_RECORD_HEADER_BYTES = 5
# How a frame that says why somebody closes goes on after as many bytes.
_FAREWELL = encode_preamble(Preamble(Kind.ERROR, 0, 0, 0))[_RECORD_HEADER_BYTES:8]


@final
class Certificate:
    """What one listener shows, and the key to it, which is nowhere else."""

    def __init__(self, where: str) -> None:
        """Make both, for a listener at ``where``.

        Raises:
            UsageError: what makes them is not installed, or OpenSSL does not take them.
        """
        pem, self.place = _made(where)
        self._context = _context(ssl.PROTOCOL_TLS_SERVER)
        self._context.num_tickets = 0  # nobody comes back by a ticket, past the certificate
        # A name is all that `ssl` reads keys from; this one is of memory.
        fd = os.memfd_create("paceline-certificate")
        try:
            os.write(fd, pem)
            self._context.load_cert_chain(f"/proc/self/fd/{fd}")
        except OSError as error:
            raise UsageError(f"{where}: its certificate cannot be used: {error}") from error
        finally:
            os.close(fd)

    def seal(self, sock: socket.socket) -> "TlsSocket":
        """The listener's end of an accepted socket, which is taken over."""
        return TlsSocket(sock, self._context, is_listener=True)


def sealed(sock: socket.socket) -> "TlsSocket":
    """The client's end of a connected socket, which is taken over."""
    return TlsSocket(sock, _client_context(os.getpid()), is_listener=False)


@functools.lru_cache(maxsize=1)
def _client_context(pid: int) -> ssl.SSLContext:
    """One of this process: what was made before a fork may have been in use just then."""
    del pid
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _made(where: str) -> tuple[bytes, bytes]:
    """A key and its certificate in PEM, and the place that the certificate is.

    P-256 and not Ed25519: libraries in FIPS mode have it, too.
    """
    try:
        from cryptography import x509  # noqa: PLC0415  (only some jobs need it)
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"{where}: other machines can reach it, so it speaks TLS, and the library that "
            "makes its certificate is not installed: pip install 'paceline[tls]'; or, in a "
            "network that is private or encrypts by itself, --plain"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "paceline")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2100, 1, 1, tzinfo=dt.UTC))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem += certificate.public_bytes(serialization.Encoding.PEM)
    return pem, _place(certificate.public_bytes(serialization.Encoding.DER))


def _place(certificate: bytes) -> bytes:
    return hashlib.sha256(certificate).digest()


@final
class TlsSocket(Sealed):
    """One end of a TLS connection; see `Sealed`."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, is_listener: bool
    ) -> None:
        """Take over a connected socket that does not block; nothing is said yet."""
        self.family = sock.family
        self._tls = context.wrap_socket(
            sock, server_side=is_listener, do_handshake_on_connect=False
        )
        # Guards the TLS object and all below; held around calls that do not wait.
        self._lock = threading.Lock()
        self._is_open = False
        self._has_begun = is_listener  # a client speaks first, then looks
        self._is_known = False  # the other end's first byte has been looked at
        self._is_plain = False  # and it speaks no TLS
        self._read_needs, self._write_needs = select.POLLIN, select.POLLOUT

    def shake(self) -> bytes | None:
        """See `Sealed.shake`."""
        try:
            with self._lock:
                if not self._shake():
                    return None
                certificate = self._tls.getpeercert(binary_form=True)
        except OSError as error:
            raise PeerLost(f"TLS failed: {error}") from error
        if not certificate:
            raise FrameRefused("expected a certificate, got none")
        return _place(certificate)

    def has_unread(self) -> bool:
        """See `Sealed.has_unread`."""
        with self._lock:
            return self._has_unread()

    def needs(self, wanted: int) -> int:
        """See `Sealed.needs`."""
        events = 0
        with self._lock:
            if wanted & select.POLLIN:
                events |= self._read_needs
                if self._has_unread():
                    events |= select.POLLOUT
            if wanted & select.POLLOUT:
                events |= self._write_needs
        return events

    def may_read(self, events: int) -> bool:
        """See `Sealed.may_read`."""
        with self._lock:
            is_crossed = self._read_needs == select.POLLOUT
            return bool(events & ~select.POLLOUT) or is_crossed or self._has_unread()

    def fileno(self) -> int:
        """See `Sealed.fileno`."""
        return self._tls.fileno()

    def recv_into(self, view: memoryview) -> int:
        """See `Sealed.recv_into`."""
        with self._lock:
            if not self._shake():
                raise BlockingIOError("TLS is not ready")
            try:
                count = self._tls.recv_into(view)
            except ssl.SSLWantReadError:
                self._read_needs = select.POLLIN
            except ssl.SSLWantWriteError:
                self._read_needs = select.POLLOUT
            else:
                self._read_needs = select.POLLIN
                return count
        raise BlockingIOError("nothing to read")

    def recvmsg_into(
        self, views: Iterable[memoryview], ancillary_bytes: int = 0, flags: int = 0
    ) -> tuple[int, list[tuple[int, int, bytes]], int, object]:
        """See `Sealed.recvmsg_into`."""
        del ancillary_bytes, flags
        return self.recv_into(next(iter(views))), [], 0, None

    def send(self, view: memoryview, flags: int = 0) -> int:
        """See `Sealed.send`."""
        with self._lock:
            if self._is_plain:  # a farewell
                return socket.socket.send(self._tls, view, flags)
            if not self._is_open:
                raise ConnectionError("TLS is not ready")
            try:
                count = self._tls.send(view[:MOST_AT_ONCE])
            except ssl.SSLWantReadError:
                self._write_needs = select.POLLIN
            except ssl.SSLWantWriteError:
                self._write_needs = select.POLLOUT
            else:
                self._write_needs = select.POLLOUT
                return count
        raise BlockingIOError("no room to write")

    def sendmsg(
        self, views: Iterable[memoryview], ancillary: Iterable[object] = (), flags: int = 0
    ) -> int:
        """See `Sealed.sendmsg`: small views go together in one record, large ones alone."""
        del ancillary
        return self.send(_together(views), flags)

    def shutdown(self, how: int) -> None:
        """See `Sealed.shutdown`."""
        # Not that of `ssl`: afterwards it would read on without TLS.
        socket.socket.shutdown(self._tls, how)

    def close(self) -> None:
        """See `Sealed.close`."""
        self._tls.close()

    def _has_unread(self) -> bool:
        return self._is_open and self._tls.pending() > 0

    def _shake(self) -> bool:
        """Go on with the handshake; whether it is done.

        Raises:
            OSError: the stream has ended.
            ForeignPeer: the other end is of paceline, and speaks no TLS.
            FrameRefused: it is not, or its TLS is not ours.
        """
        if self._is_open:
            return True
        if self._has_begun and not self._is_known and not self._look():
            return False
        self._has_begun = True
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._read_needs = select.POLLIN
            return False
        except ssl.SSLWantWriteError:
            self._read_needs = select.POLLOUT
            return False
        except ssl.SSLEOFError as error:
            raise ConnectionError("the other end has closed the connection") from error
        except ssl.SSLError as error:
            if not self._is_known and self._is_farewell():
                raise ForeignPeer(NO_TLS_HERE) from error
            raise FrameRefused(f"expected TLS 1.3: {error.reason or error}") from error
        self._is_open, self._read_needs = True, select.POLLIN
        return True

    def _look(self) -> bool:
        """At the first byte of the other end, without taking it; false: there is none."""
        try:
            first = socket.socket.recv(self._tls, len(MAGIC), socket.MSG_PEEK)
        except BlockingIOError:
            return False
        if not first:
            raise ConnectionError("the other end has closed the connection")
        if first[:1] not in (TLS_BEGINNING[:1], _ALERT):
            self._is_plain = True
            if MAGIC.startswith(first):
                raise ForeignPeer(NO_TLS_HERE)
            raise FrameRefused(f"expected TLS, got {first!r}")
        self._is_known = True
        return True

    def _is_farewell(self) -> bool:
        """Whether OpenSSL, in the same call in which it spoke, has read into a farewell.

        It took what it holds to be the beginning of a record.
        """
        try:
            rest = socket.socket.recv(self._tls, len(_FAREWELL), socket.MSG_PEEK)
        except OSError:
            return False
        return rest == _FAREWELL


def _together(views: Iterable[memoryview]) -> memoryview:
    """As many of the first views as one record holds, or the first alone."""
    joined: list[memoryview] = []
    num_bytes = 0
    for view in views:
        num_bytes += view.nbytes
        if num_bytes > RECORD_BYTES:
            break
        joined.append(view)
    else:
        return memoryview(b"".join(joined))
    return memoryview(b"".join(joined)) if joined else view
