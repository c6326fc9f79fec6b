"""Cuts in a bucket: the same promises as in a folder, on S3's own words."""

from collections.abc import Callable, Iterator

import pytest

from paceline.errors import StoreError
from paceline.store.blobs import BlobStore
from paceline.store.manifest import Manifest, list_cuts, newest_good_cut, write_manifest
from paceline.store.retention import sweep

pytest.importorskip("s3fs", reason="S3 is not shown: install the extra s3")
moto_server = pytest.importorskip(
    "moto.server", reason="S3 is not shown: install moto[server]"
)
boto3 = pytest.importorskip("boto3", reason="S3 is not shown: install moto[server]")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlobStore]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    boto3.client("s3").create_bucket(Bucket="cuts")
    yield BlobStore("s3://cuts/job")
    server.stop()


def test_cuts_are_kept_in_a_bucket(
    store: BlobStore, describe_cut: Callable[..., Manifest]
) -> None:
    assert list_cuts(store) == []
    for cut in (1, 2, 3):
        manifest = describe_cut(cut)
        write_manifest(store, manifest)
    assert newest_good_cut(store) == (manifest, ())
    with pytest.raises(StoreError, match="the name is taken"):
        store.write("cut-000003-t1/server-0.bin", [b"another"])
    assert sweep(store, 1, "cut-000003-t1") == ("cut-000001-t1", "cut-000002-t1")
    store.remove("cut-000003-t1/server-1.bin")
    describe_cut(4)
    assert [cut.cut for cut in list_cuts(store)] == [3]
