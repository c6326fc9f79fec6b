"""A handshake, frame by frame: who comes in, and who finds out what."""

import msgspec
import pytest

from paceline.errors import ForeignPeer, FrameRefused, HandshakeRefused, UsageError
from paceline.transport.greeting import Introduction, Reception
from paceline.transport.handshake import (
    NONCE_BYTES,
    Challenge,
    Hello,
    HelloCheck,
    Proof,
    Secret,
    Security,
    Transcript,
    Way,
    Welcome,
)

SECRET = Secret(bytes(range(32)))
HERE, ELSEWHERE = b"\x7f\0\0\1\x12\x67", b"\x7f\0\0\1\x12\x68"
HELLO = Hello(run="run-1", role="trainer-0", incarnation=7)
NUMBERS = iter(range(1000))


def nonce() -> bytes:
    """Fresh, as a generator's would be."""
    return next(NUMBERS).to_bytes(NONCE_BYTES, "big")


def client(
    secret: Secret | None = SECRET, place: bytes = HERE, hello: Hello = HELLO
) -> Introduction:
    return Introduction(hello, secret, place, nonce())


def listener(secret: Secret | None = SECRET, place: bytes = HERE) -> Reception:
    check = HelloCheck("run-1", "server-0", {"trainer"})
    return Reception(check, [secret] if secret else [], place, nonce())


def shake_hands(mine: Introduction, theirs: Reception) -> list[msgspec.Struct]:
    """Everything that was said until the client was in."""
    said: list[msgspec.Struct] = []
    message: Hello | Proof | Welcome = mine.hello
    while not isinstance(message, Welcome):
        answer = theirs.answer(message)
        said += [message, answer]
        message = mine.answer(answer)
    return said


# ------------------------------------------------------------- who comes in


def test_both_ends_of_one_secret_are_content() -> None:
    hello, challenge, proof, welcome = shake_hands(client(), listener())
    assert isinstance(hello, Hello)
    assert isinstance(challenge, Challenge)
    assert isinstance(proof, Proof)
    assert isinstance(welcome, Welcome)
    assert welcome.role == "server-0"


def test_without_a_secret_hello_and_welcome_are_enough() -> None:
    said = shake_hands(client(None), listener(None))
    assert [type(message) for message in said] == [Hello, Welcome]


def test_no_frame_holds_the_secret() -> None:
    said = shake_hands(client(), listener())
    data = b"".join(msgspec.msgpack.encode(message) for message in said)
    assert bytes(range(32)) not in data
    assert SECRET.text().encode() not in data


def test_two_handshakes_have_no_proof_in_common() -> None:
    first, second = (shake_hands(client(), listener()) for _ in range(2))
    assert not {str(message) for message in first} & {str(message) for message in second}


# ------------------------------------------------------------- who does not


def test_client_with_another_secret_is_refused_by_the_listener() -> None:
    with pytest.raises(
        HandshakeRefused, match="proof of the run's secret, and that of 'trainer-0'"
    ):
        shake_hands(client(Secret.fresh()), listener())


def test_client_without_a_secret_is_told_to_bring_one() -> None:
    with pytest.raises(HandshakeRefused, match="none to offer: set PACELINE_SECRET"):
        listener().answer(HELLO)
    with pytest.raises(HandshakeRefused, match="has none: set PACELINE_SECRET"):
        client(None).answer(Challenge(nonce()))


def test_listener_that_cannot_prove_the_secret_is_refused_by_the_client() -> None:
    mine = client()
    mine.answer(Challenge(nonce()))
    pretended = Welcome(run="run-1", role="server-0", proof=bytes(32))
    with pytest.raises(HandshakeRefused, match="the proof does not hold"):
        mine.answer(pretended)


def test_listener_that_asks_for_nothing_is_refused_by_the_client() -> None:
    with pytest.raises(HandshakeRefused, match="this one lets everybody in"):
        client().answer(Welcome(run="run-1", role="server-0"))


def test_recorded_handshake_proves_nothing_to_another_connection() -> None:
    hello, _, proof, welcome = shake_hands(client(), listener())
    other = listener()
    other.answer(hello)
    with pytest.raises(HandshakeRefused, match="does not hold"):
        other.answer(proof)
    mine = client()
    mine.answer(Challenge(nonce()))
    assert isinstance(welcome, Welcome)
    with pytest.raises(HandshakeRefused, match="does not hold"):
        mine.answer(welcome)


def test_own_proof_sent_back_proves_nothing() -> None:
    mine = client()
    proof = mine.answer(Challenge(nonce()))
    assert isinstance(proof, Proof)
    with pytest.raises(HandshakeRefused, match="does not hold"):
        mine.answer(Welcome(run="run-1", role="server-0", proof=proof.proof))


def test_listener_cannot_be_made_to_prove_in_a_clients_place() -> None:
    """Whoever has no secret asks one listener what another listener asks of it."""
    asked, oracle = listener(), listener()
    overheard = msgspec.structs.replace(HELLO, key=SECRET.key_id)
    challenge = asked.answer(msgspec.structs.replace(overheard, nonce=bytes(32)))
    assert isinstance(challenge, Challenge)
    counter = oracle.answer(msgspec.structs.replace(overheard, nonce=challenge.nonce))
    assert isinstance(counter, Challenge)  # nothing that is signed, before a proof
    with pytest.raises(HandshakeRefused, match="does not hold"):
        asked.answer(Proof(counter.nonce))


def test_proof_for_one_listener_proves_nothing_to_another() -> None:
    """Somebody in between passes on, word for word, what a client says to it."""
    with pytest.raises(HandshakeRefused, match="no address translation in between"):
        shake_hands(client(place=ELSEWHERE), listener(place=HERE))


@pytest.mark.parametrize(
    "change", [{"role": "trainer-1"}, {"run": "run-2"}, {"incarnation": 8}, {"version": 2}]
)
def test_hello_changed_on_the_way_is_refused(change: dict[str, str | int]) -> None:
    mine, theirs = client(), listener()
    challenge = theirs.answer(msgspec.structs.replace(mine.hello, **change))
    with pytest.raises(HandshakeRefused, match="does not hold"):
        theirs.answer(mine.answer(challenge))


def test_a_stranger_does_not_learn_which_run_this_is() -> None:
    other_run = msgspec.structs.replace(HELLO, run="run-2")
    with pytest.raises(HandshakeRefused) as refused:
        shake_hands(client(Secret.fresh(), hello=other_run), listener())
    assert "run-1" not in str(refused.value)
    with pytest.raises(HandshakeRefused, match="run 'run-1', the other end has 'run-2'"):
        shake_hands(client(hello=other_run), listener())


# ------------------------------------------------------------- which secret, and how


def rotated(new: Secret, old: Secret) -> Secret:
    """As a file says it: the new one first, and below it the one before."""
    return Secret.parse(f"{new.text()}\n{old.text()}\n", "a file")


def test_a_secret_and_the_one_before_it_travel_together() -> None:
    old, new = Secret.fresh(), Secret.fresh()
    both = rotated(new, old)
    assert both == new
    assert both.previous == old
    assert Secret.parse(both.text(), "an environment").previous == old
    with pytest.raises(UsageError, match="and perhaps the one before it, got 194 char"):
        Secret.parse(f"{both.text()} {new.text()}", "a file")


def test_during_a_rotation_the_previous_secret_is_accepted_and_proved() -> None:
    old, new = Secret.fresh(), Secret.fresh()
    check = HelloCheck("run-1", "server-0", {"trainer"})
    accepted = Security(rotated(new, old)).accepted
    for secret in (old, new):
        theirs = Reception(check, accepted, HERE, nonce())
        assert isinstance(shake_hands(client(secret), theirs)[-1], Welcome)


def test_a_refusal_says_which_key_came_and_which_are_accepted() -> None:
    old, new, other = Secret.fresh(), Secret.fresh(), Secret.fresh()
    check = HelloCheck("run-1", "server-0", {"trainer"})
    theirs = Reception(check, Security(rotated(new, old)).accepted, HERE, nonce())
    came, ids = other.key_id.hex(), f"{new.key_id.hex()} and {old.key_id.hex()}"
    with pytest.raises(ForeignPeer, match=f"key id {came}, those accepted have {ids}"):
        shake_hands(client(other), theirs)


def test_a_key_id_tells_secrets_apart_and_is_none() -> None:
    other = Secret.fresh()
    assert len(SECRET.key_id) == 8
    assert SECRET.key_id != other.key_id
    assert SECRET.key_id == Secret(bytes(range(32))).key_id
    assert SECRET.key_id not in bytes(range(32))


def test_a_named_key_is_the_one_that_must_be_proved() -> None:
    """Who knows the previous secret cannot name the current one."""
    old, new = Secret.fresh(), Secret.fresh()
    check = HelloCheck("run-1", "server-0", {"trainer"})
    theirs = Reception(check, Security(rotated(new, old)).accepted, HERE, nonce())
    mine = client(old)
    challenge = theirs.answer(msgspec.structs.replace(mine.hello, key=new.key_id))
    with pytest.raises(ForeignPeer, match="does not hold"):
        theirs.answer(mine.answer(challenge))


@pytest.mark.parametrize(
    ("theirs", "mine", "reason"),
    [
        ("plain", "local", r"checksums \(--plain\), .* comes without TLS, on one host"),
        ("local", "plain", "on one host, .* comes without TLS, with checksums"),
        ("tls", "plain", "by TLS, .* comes without TLS"),
        ("plain", "smoke signals", "comes 'smoke signals'"),
    ],
)
def test_ends_that_do_not_agree_how_frames_travel_say_so(
    theirs: Way, mine: str, reason: str
) -> None:
    check = HelloCheck("run-1", "server-0", {"trainer"})
    reception = Reception(check, [SECRET], HERE, nonce(), theirs)
    hello = msgspec.structs.replace(HELLO, way=mine)
    with pytest.raises(ForeignPeer, match=f"{reason}.*--plain, or none"):
        reception.answer(client(hello=hello).hello)


def test_who_changes_the_way_in_between_is_refused() -> None:
    check = HelloCheck("run-1", "server-0", {"trainer"})
    theirs, mine = Reception(check, [SECRET], HERE, nonce(), "plain"), client()
    challenge = theirs.answer(msgspec.structs.replace(mine.hello, way="plain"))
    with pytest.raises(ForeignPeer, match="does not hold"):
        theirs.answer(mine.answer(challenge))


def test_a_place_that_is_shown_later_is_proved() -> None:
    mine = client(place=b"")
    mine.reached(HERE)
    assert isinstance(shake_hands(mine, listener())[-1], Welcome)


# ------------------------------------------------------------- whose turn it is


@pytest.mark.parametrize("message", [Proof(b""), None, Challenge(b"")])
def test_handshake_begins_with_a_hello(message: msgspec.Struct | None) -> None:
    for secret in (SECRET, None):
        with pytest.raises(FrameRefused, match="expected a hello"):
            listener(secret).answer(message)


def test_a_second_hello_is_refused() -> None:
    theirs = listener()
    hello = client().hello
    theirs.answer(hello)
    with pytest.raises(FrameRefused, match="expected a hello, got Hello"):
        theirs.answer(hello)


def test_a_second_challenge_is_refused() -> None:
    mine = client()
    mine.answer(Challenge(nonce()))
    with pytest.raises(FrameRefused, match="expected one challenge"):
        mine.answer(Challenge(nonce()))


def test_nonces_of_another_length_are_refused() -> None:
    with pytest.raises(FrameRefused, match="expected one challenge with a nonce"):
        client().answer(Challenge(b"short"))
    with pytest.raises(HandshakeRefused, match="none to offer"):
        listener().answer(msgspec.structs.replace(HELLO, nonce=b"short"))


def test_transcripts_of_both_ends_are_the_same() -> None:
    mine, theirs = client(), listener()
    challenge = theirs.answer(mine.hello)
    assert isinstance(challenge, Challenge)
    seen = Transcript(mine.hello, challenge.nonce, HERE)
    proof = mine.answer(challenge)
    assert proof == Proof(seen.client_proof(SECRET))
    welcome = theirs.answer(proof)
    assert isinstance(welcome, Welcome)
    assert welcome.proof == seen.listener_proof(SECRET, welcome)
