"""What holds for all tests."""

import signal
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Machines differ by a factor of twenty: how long an example takes is no failure.
settings.register_profile(
    "paceline", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("paceline")

# A shell has Ctrl-C ignored for what it runs in the background, nohup a hang-up, and what
# is ignored stays so in every process of ours: tests are about processes that hear them.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rules of the house first, then from fast to slow; examples last."""
    items.sort(key=_place)
    for item in items:
        if "bucket" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.around)


def _place(item: pytest.Item) -> tuple[bool, bool, bool]:
    path = item.path.as_posix()
    is_slow = item.get_closest_marker("slow") is not None
    return "/tests/examples/" in path, is_slow, "/tests/architecture/" not in path


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket of a server that speaks S3's own words."""
    import boto3  # noqa: PLC0415  (a second, which only these tests spend)
    from moto.server import ThreadedMotoServer  # noqa: PLC0415
    from s3fs import S3FileSystem  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    name = f"cuts-{uuid.uuid4()}"  # what the server is asked to keep outlives it
    boto3.client("s3").create_bucket(Bucket=name)
    S3FileSystem.clear_instance_cache()  # one of another test knows another server
    yield f"s3://{name}"
    server.stop()


@pytest.fixture(scope="session")
def needs_machines() -> None:
    """Skip what needs network namespaces as machines, where there can be none."""
    from paceline.testing.machines import why_no_machines  # noqa: PLC0415  (for few tests)

    if why := why_no_machines():
        pytest.skip(why)
