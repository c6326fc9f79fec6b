"""A place of cuts is one job's, and within the job its newest run's."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import StoreError, UsageError
from paceline.store.blobs.blobs import BlobStore
from paceline.store.blobs.retries import Patience
from paceline.store.cuts.claims import Claim, claim_place, newest_claim, taken_over


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    patience = Patience(wait=lambda _seconds: None)
    if request.param == "local":
        return BlobStore(str(tmp_path / "cuts"), patience)
    return BlobStore(f"memory://claims-{uuid.uuid4()}", patience)


def wanted(job: str, run: str) -> Claim:
    return Claim(job=job, run=run, holder=f"process 7 of {run}", folder=f"/jobs/{job}")


def names(place: BlobStore) -> list[str]:
    return place.folder("claims").names()


def test_runs_of_one_job_follow_each_other_and_the_last_counts(place: BlobStore) -> None:
    assert newest_claim(place) is None
    assert taken_over(place, "a1") is None
    first = claim_place(place, wanted("a", "a1"))
    assert first.number == 1
    assert taken_over(place, "a1") is None
    second = claim_place(place, wanted("a", "a2"))
    assert second.number == 2
    assert newest_claim(place) == second
    assert taken_over(place, "a1") == second
    assert taken_over(place, "a2") is None
    assert names(place) == ["run-000002.json"], "nothing grows with the number of runs"


def test_another_job_is_refused_with_who_has_the_place_and_what_to_do(
    place: BlobStore,
) -> None:
    first = claim_place(place, wanted("a", "a1"))
    with pytest.raises(UsageError) as refused:
        claim_place(place, wanted("b", "b1"))
    for said in ("job a", "process 7 of a1", "/jobs/a", "--checkpoints", "--resume"):
        assert said in str(refused.value)
    assert newest_claim(place) == first


@pytest.mark.parametrize("other", ["a", "b"])
def test_of_two_that_claim_at_once_one_is_second(
    place: BlobStore, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's claim is written between this one's look and its write."""
    real, others = BlobStore.write, [wanted(other, "faster")]

    def write(self: BlobStore, name: str, buffers: Any) -> Any:
        if others and name.startswith("run-"):
            claim_place(place, others.pop())
        return real(self, name, buffers)

    monkeypatch.setattr(BlobStore, "write", write)
    if other == "b":
        with pytest.raises(UsageError, match="another job"):
            claim_place(place, wanted("a", "a1"))
    else:
        assert claim_place(place, wanted("a", "a1")).number == 2
        assert taken_over(place, "faster") is not None


def test_a_claim_that_comes_late_gets_no_number_that_was_removed(
    place: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of the other one come and the first is removed, between look and write."""
    real, others = BlobStore.write, [wanted("b", "b1"), wanted("b", "b2")]

    def write(self: BlobStore, name: str, buffers: Any) -> Any:
        if name.startswith("run-"):
            coming = others.copy()
            others.clear()
            for other in coming:
                claim_place(place, other)
        return real(self, name, buffers)

    monkeypatch.setattr(BlobStore, "write", write)
    with pytest.raises(UsageError, match="another job"):
        claim_place(place, wanted("a", "a1"))
    newest = newest_claim(place)
    assert newest is not None
    assert newest.run == "b2"
    assert names(place) == ["run-000002.json"]


def test_what_is_no_claim_is_named(place: BlobStore) -> None:
    place.write("claims/run-000003.json", [b"{}"])
    with pytest.raises(StoreError, match=r"claims/run-000003\.json: not a claim"):
        newest_claim(place)
