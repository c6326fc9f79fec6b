"""Where a cluster is looked for, and what is told of one that is not there."""

import socket
import sys
from types import ModuleType

import pytest

from paceline.errors import UsageError
from paceline.launch.engines.ray.cluster import connect


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is installed, and not asked for anything."""
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))


def refused(address: str) -> str:
    with pytest.raises(UsageError) as error:
        connect(is_uploaded=True, say=print, environment={"RAY_ADDRESS": address})
    return str(error.value)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    assert "pip install 'paceline[ray,tls]'" in refused("")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ray://head:10001", "leads to the cluster from outside"),
        ("local", "such as 10.0.0.1:6379, got 'local'"),
        ("127.0.0.1:99999", "no head of a cluster answers at 127.0.0.1:99999"),
    ],
)
def test_an_address_that_leads_to_no_head_is_refused(address: str, told: str) -> None:
    assert told in refused(address)


def test_a_head_that_does_not_answer_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    assert f"answers at 127.0.0.1:{port} (RAY_ADDRESS)" in refused(f"127.0.0.1:{port}")
