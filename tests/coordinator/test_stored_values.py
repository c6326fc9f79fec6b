"""Large values are durable before they count, and stay as long as anything names them."""

from pathlib import Path

import msgspec
import pytest

from paceline.coordinator import stored_values as service_values
from paceline.coordinator.durable.durable import Durable
from paceline.coordinator.durable.queue import Queue, StageResults, encode_queue
from paceline.coordinator.stored_values import StoredValues, is_heavy, is_kept
from paceline.errors import StoreError
from paceline.messages.results import (
    MAX_RESULT_BYTES,
    FinishTask,
    KeepValue,
    KeptBytes,
    Results,
)
from paceline.messages.shared import Refusal, Waiting
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.blobs.contents import digests, get_bytes, put_bytes
from paceline.store.cuts.manifest import Manifest, write_manifest

WHO = {"incarnation": 1, "timeline": 0}
HEAVY = b"v" * 1000


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def values_of(store: BlobStore) -> StoredValues:
    return StoredValues(store, lambda _: True)


def kept_by(values: StoredValues, data: bytes) -> KeptBytes:
    message = values.wait_lightened(KeepValue(**WHO, stage=0, value=data))
    assert isinstance(message, KeepValue)
    assert message.value == b""
    assert message.kept is not None
    return message.kept


def naming(*kept: KeptBytes) -> Queue:
    return Queue(stage=9, results={n: StageResults(kept=k) for n, k in enumerate(kept)})


def commit(store: BlobStore, cut: int, queue: Queue) -> None:
    encoded = encode_queue(queue)
    manifest = Manifest(
        run="run-1",
        cut=cut,
        timeline=0,
        files={},
        plans=(),
        rounds={},
        queue=encoded,
        queue_xxh3=digest(encoded),
        created=0.0,
    )
    write_manifest(store, manifest)


def test_only_what_is_large_and_allowed_is_written() -> None:
    assert is_heavy(FinishTask(**WHO, token=1, result=HEAVY))
    assert is_heavy(KeepValue(**WHO, stage=0, value=HEAVY))
    assert not is_heavy(KeepValue(**WHO, stage=0, value=b"v" * 256))
    assert not is_heavy(KeepValue(**WHO, stage=0, value=bytes(MAX_RESULT_BYTES + 1)))


def test_bytes_are_durable_before_the_question_is_put(store: BlobStore) -> None:
    values = values_of(store)
    light = values.wait_lightened(FinishTask(**WHO, token=7, result=HEAVY))
    assert isinstance(light, FinishTask)
    assert light.kept is not None
    assert (light.token, light.result) == (7, b"")
    assert get_bytes(store, light.kept) == HEAVY


def test_storage_that_fails_lets_the_question_be_put_again(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    fails = iter([StoreError("the disk is full"), None])

    def sometimes(where: BlobStore, data: bytes) -> KeptBytes:
        if (error := next(fails)) is not None:
            raise error
        return put_bytes(where, data)

    monkeypatch.setattr(service_values, "put_bytes", sometimes)
    values = StoredValues(store, lambda seconds: bool(waited.append(seconds)))
    told = values.wait_lightened(KeepValue(**WHO, stage=0, value=HEAVY))
    assert isinstance(told, Waiting)
    assert told.is_held
    assert "the disk is full" in told.wait.reason
    assert len(waited) == 1, "it is not put again at once"
    assert get_bytes(store, kept_by(values, HEAVY)) == HEAVY


def test_a_coordinator_that_stops_gives_the_question_up(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> KeptBytes:
        raise StoreError("away")

    monkeypatch.setattr(service_values, "put_bytes", refuse)
    values = values_of(store)
    assert values.wait_lightened(KeepValue(**WHO, stage=0, value=HEAVY)) is None


def test_an_answer_has_its_bytes_again(store: BlobStore) -> None:
    first, second = put_bytes(store, HEAVY), put_bytes(store, HEAVY * 2)
    answer = Results(states={0: b"light"}, kept_states={3: first}, kept=second, missing=2)
    assert is_kept(answer)
    whole = values_of(store).wait_whole(answer)
    assert whole == Results(value=HEAVY * 2, states={0: b"light", 3: HEAVY}, missing=2)
    assert isinstance(whole, Results)
    assert not is_kept(whole)


def test_bytes_that_are_gone_are_told_by_file(store: BlobStore) -> None:
    answer = Results(kept=KeptBytes("0" * 32, 5))
    refusal = values_of(store).wait_whole(answer)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "invalid"
    assert "values/00000000000000000000000000000000: the file is missing" in refusal.text


def test_a_sweep_keeps_what_the_state_or_a_cut_names(store: BlobStore) -> None:
    loose, in_cut, in_state = (put_bytes(store, HEAVY + b"%d" % n) for n in range(3))
    commit(store, 1, naming(in_cut))
    values = values_of(store)
    values.note_named(Durable(queue=naming(in_state)))
    values.sweep()
    assert digests(store) == sorted([in_cut.digest, in_state.digest])
    assert loose.digest not in digests(store)


def test_a_sweep_keeps_what_is_not_named_yet(store: BlobStore) -> None:
    values = values_of(store)
    values.note_named(Durable())
    coming = kept_by(values, HEAVY)  # written, and not journalled yet
    values.sweep()
    values.sweep()
    assert digests(store) == [coming.digest]
    values.note_named(Durable(queue=naming(coming)))
    values.sweep()
    values.note_named(Durable())  # it has been named, and is no longer
    values.sweep()
    assert digests(store) == []


def test_a_cut_that_cannot_be_read_lets_everything_stay(
    store: BlobStore, tmp_path: Path
) -> None:
    put_bytes(store, HEAVY)
    commit(store, 1, Queue())
    path = next(tmp_path.glob("cut-*/manifest.json"))
    path.write_bytes(path.read_bytes().replace(b"run-1", b"run-2"))
    values = values_of(store)
    values.note_named(Durable())
    with pytest.raises(StoreError, match="what it names is not known"):
        values.sweep()
    assert len(digests(store)) == 1


def test_a_value_costs_a_cut_some_fifty_bytes() -> None:
    kept = [KeptBytes(f"{n:032x}", 8 << 20) for n in range(100)]
    assert len(encode_queue(naming(*kept))) < 60 * 100
    assert msgspec.msgpack.decode(encode_queue(naming(*kept)), type=Queue) == naming(*kept)
