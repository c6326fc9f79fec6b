"""The run's secret can be handed on, and shows itself nowhere else."""

import traceback

import pytest

from paceline.errors import UsageError
from paceline.transport.handshake import SECRET_BYTES, Secret


def test_secret_comes_back_from_its_text() -> None:
    secret = Secret.fresh()
    assert Secret.parse(secret.text(), "here") == secret
    assert Secret.parse(f"{secret.text()}\n", "a file") == secret
    assert len(bytes.fromhex(secret.text())) == SECRET_BYTES


def test_no_two_secrets_are_the_same() -> None:
    assert len({Secret.fresh() for _ in range(100)}) == 100
    assert Secret.fresh() != Secret.fresh()


def test_secret_prints_as_nothing() -> None:
    secret = Secret.fresh()
    for shown in (repr(secret), str(secret), f"{secret}", repr({"secret": secret})):
        assert "Secret(...)" in shown
        assert secret.text() not in shown


@pytest.mark.parametrize(
    "text", ["", "12ab", "z" * 64, "0" * 63, "0" * 66, "0x" + "1" * 62]
)
def test_what_is_no_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="PACELINE_SECRET: expected a secret of 64") as it:
        Secret.parse(text, "PACELINE_SECRET")
    told = "".join(traceback.format_exception(it.value))
    assert not text or text not in told


def test_two_secrets_sign_differently() -> None:
    one, other = Secret.fresh(), Secret.fresh()
    assert one.sign(b"data") == one.sign(b"data") != other.sign(b"data")
