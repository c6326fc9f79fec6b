"""A proof is worth something for one secret, one direction and one handshake only."""

import hashlib
import hmac

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ForeignPeer
from paceline.transport.greeting import Reception
from paceline.transport.handshake import (
    Hello,
    HelloCheck,
    Proof,
    Secret,
    Transcript,
    Welcome,
)

SECRET = Secret(bytes(range(32)))
HELLO = Hello(
    run="run-1", role="trainer-0", incarnation=7, nonce=b"c" * 32, key=SECRET.key_id
)
WELCOME = Welcome(run="run-1", role="server-0")
SEEN = Transcript(HELLO, b"l" * 32, b"\x7f\0\0\1\x12\x67")

hellos = st.builds(
    Hello,
    run=st.sampled_from(["run-1", "run-2", ""]),
    role=st.sampled_from(["trainer-0", "trainer-1", "coordinator"]),
    incarnation=st.integers(0, 3),
    version=st.integers(1, 2),
    nonce=st.sampled_from([b"c" * 32, b"C" * 32]),
    way=st.sampled_from(["local", "plain", "tls"]),
    key=st.sampled_from([b"k" * 8, b"K" * 8]),
)
transcripts = st.builds(
    Transcript, hellos, st.binary(max_size=3), st.sampled_from([b"", b"a", b"ab"])
)


def test_the_proofs_are_what_the_note_says() -> None:
    who = [
        1,
        "run-1",
        "trainer-0",
        7,
        b"c" * 32,
        "local",
        SECRET.key_id,
        b"l" * 32,
        SEEN.place,
    ]
    key = bytes(range(32))

    def signed(*parts: object) -> bytes:
        return hmac.new(key, msgspec.msgpack.encode(parts), hashlib.sha256).digest()

    assert SEEN.client_proof(SECRET) == signed("paceline handshake 2: who connects", *who)
    assert SEEN.listener_proof(SECRET, WELCOME) == signed(
        "paceline handshake 2: who listens", *who, 1, "run-1", "server-0"
    )


@given(transcripts, transcripts)
def test_two_handshakes_have_one_proof_only_if_they_are_the_same(
    one: Transcript, other: Transcript
) -> None:
    is_same = one == other
    assert (one.client_proof(SECRET) == other.client_proof(SECRET)) is is_same
    mine, theirs = (it.listener_proof(SECRET, WELCOME) for it in (one, other))
    assert (mine == theirs) is is_same


@given(transcripts)
def test_the_two_directions_never_have_one_proof(seen: Transcript) -> None:
    assert seen.client_proof(SECRET) != seen.listener_proof(SECRET, WELCOME)


@pytest.mark.parametrize(
    "other",
    [
        Welcome(run="run-1", role="server-1"),
        Welcome(run="run-2", role="server-0"),
        Welcome(run="run-1", role="server-0", version=2),
    ],
)
def test_a_listener_proves_its_own_role_run_and_version(other: Welcome) -> None:
    assert SEEN.listener_proof(SECRET, WELCOME) != SEEN.listener_proof(SECRET, other)


def test_another_secret_is_another_proof() -> None:
    other = Secret.fresh()
    assert SEEN.client_proof(SECRET) != SEEN.client_proof(other)
    assert SEEN.client_proof(SECRET) == SEEN.client_proof(SECRET)


def test_proofs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both))
    check = HelloCheck("run-1", "server-0", {"trainer"})
    theirs = Reception(check, [SECRET], SEEN.place, SEEN.nonce)
    theirs.answer(HELLO)
    with pytest.raises(ForeignPeer):
        theirs.answer(Proof(b"b"))
    assert compared == [(SEEN.client_proof(SECRET), b"b")]
