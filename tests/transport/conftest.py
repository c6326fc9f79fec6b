from collections.abc import Iterator

import pytest

from tests.transport.corridors import Corridor, InProcessCorridor, Memory, UnixCorridor


@pytest.fixture(params=["unix", "inproc"])
def corridor(request: pytest.FixtureRequest) -> Iterator[Corridor]:
    opened: Corridor = UnixCorridor() if request.param == "unix" else InProcessCorridor()
    yield opened
    opened.close()


@pytest.fixture
def unix() -> Iterator[UnixCorridor]:
    opened = UnixCorridor()
    yield opened
    opened.close()


@pytest.fixture
def service() -> Memory:
    return Memory()
