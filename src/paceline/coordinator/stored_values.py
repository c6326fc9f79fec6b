"""Large results and values: written beside the cuts before they count, read when asked for.

::

    FinishTask, KeepValue --bytes--> values/<digest> --then--> the decision, with `kept`
    Results with `kept`   <--bytes-- values/<digest>           before the answer is sent

So neither the journal nor any manifest holds them: a few bytes each, however many
evaluations there were. What no cut and no journal names is removed by the sweep, but for
what is being written: it is not named yet.

Waits: for storage. Any thread.
"""

import logging
import threading
from collections.abc import Callable
from typing import final

import msgspec

from paceline.coordinator.durable import Durable, Queue, decode_queue
from paceline.errors import CheckpointCorrupt, StoreError
from paceline.ids import COORDINATOR
from paceline.messages.results import (
    MAX_RESULT_BYTES,
    FinishTask,
    KeepValue,
    KeptBytes,
    Results,
)
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.store.blobs import (
    BlobStore,
    describe_bytes,
    digests,
    get_bytes,
    put_bytes,
    remove_bytes,
)
from paceline.store.cuts import list_cuts, read_manifest

LIGHT_BYTES = 256  # a number and its shape: it stays with the decision
RETRY_S = 1.0
_log = logging.getLogger("paceline.coordinator")


@final
class StoredValues:
    """What lies beside the cuts of one job."""

    def __init__(self, store: BlobStore, wait: Callable[[float], bool]) -> None:
        """Look at nothing yet; ``wait`` waits so many seconds; true: give up."""
        self._store, self._wait = store, wait
        self._lock = threading.Lock()  # guards what follows, and every removal
        self._coming: set[str] = set()  # digests that no sweep has seen named yet
        self._named: set[str] = set()  # by the state, when it was last noted
        self._last: tuple[str, bytes] = ("", b"")  # every trainer asks for the same

    def wait_lightened(self, message: FinishTask | KeepValue) -> Message | None:
        """The question without its bytes, which are durable; None if it was given up.

        While storage fails, `Waiting` is the answer to it: it is to be put again.
        """
        data = _brought(message)
        with self._lock:
            self._coming.add(describe_bytes(data).digest)
        try:
            kept = put_bytes(self._store, data)
        except StoreError as error:
            _log.warning("an evaluation cannot be written; it pauses: %s", error)
            reason = f"waiting to write what an evaluation came to: {error}"
            wait = Wait("disk", reason, (COORDINATOR,))
            return None if self._wait(RETRY_S) else Waiting(wait, is_held=True)
        self._last = (kept.digest, data)
        if isinstance(message, FinishTask):
            return msgspec.structs.replace(message, result=b"", kept=kept)
        return msgspec.structs.replace(message, value=b"", kept=kept)

    def wait_whole(self, results: Results) -> Message:
        """The answer with its bytes, or why they cannot be read."""
        try:
            value = results.value if results.kept is None else self._bytes_of(results.kept)
            states = {task: self._bytes_of(k) for task, k in results.kept_states.items()}
        except StoreError as error:
            text = f"what an evaluation came to cannot be read: {error}"
            return Refusal(kind="invalid", text=text)
        whole = {**results.states, **states}
        return msgspec.structs.replace(
            results, value=value, states=whole, kept=None, kept_states={}
        )

    def note_named(self, state: Durable) -> None:
        """Remember what the state names; the one at work calls, before a sweep."""
        with self._lock:
            self._named = _named_by(state.queue)

    def sweep(self) -> None:
        """Remove what neither the state nor any cut names; one thread at a time.

        Raises:
            StoreError: the storage fails, or a cut cannot be read: nothing goes then.
        """
        with self._lock:
            named = set(self._named)
            self._coming -= named
        loose = set(digests(self._store)) - named
        if not loose:
            return
        try:
            for cut in list_cuts(self._store):
                manifest = read_manifest(self._store, cut.folder)
                loose -= _named_by(decode_queue(manifest.queue))
        except CheckpointCorrupt as error:
            raise StoreError(f"what it names is not known: {error}") from error
        for digest in sorted(loose):
            with self._lock:
                if digest not in self._coming:
                    remove_bytes(self._store, digest)

    def _bytes_of(self, kept: KeptBytes) -> bytes:
        digest, data = self._last
        if digest != kept.digest:
            data = get_bytes(self._store, kept)
            self._last = (kept.digest, data)
        return data


def is_heavy(message: FinishTask | KeepValue) -> bool:
    """Whether a question brings so much that it must be written first."""
    return LIGHT_BYTES < len(_brought(message)) <= MAX_RESULT_BYTES


def is_kept(results: Results) -> bool:
    """Whether an answer lacks bytes that lie beside the cuts."""
    return bool(results.kept or results.kept_states)


def _brought(message: FinishTask | KeepValue) -> bytes:
    return message.result if isinstance(message, FinishTask) else message.value


def _named_by(queue: Queue) -> set[str]:
    return {digest for results in queue.results.values() for digest in results.digests()}
