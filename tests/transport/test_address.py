import pytest

from paceline.errors import UsageError
from paceline.transport.address import InProcessAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/x.sock", UnixAddress("/run/x.sock")),
        ("inproc:coordinator", InProcessAddress("coordinator")),
    ],
)
def test_address_is_read_as_it_is_written(
    text: str, address: UnixAddress | InProcessAddress
) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "unix:", "tcp://host:1", "/run/x.sock", "unix:x"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=f"address '{text}'"):
        parse_address(text)


def test_path_too_long_for_the_kernel_is_refused_with_its_length() -> None:
    longest = "/" + "x" * 106
    assert parse_address(f"unix:{longest}") == UnixAddress(longest)
    with pytest.raises(UsageError, match="at most 107 bytes, this one has 108"):
        parse_address(f"unix:{longest}x")
