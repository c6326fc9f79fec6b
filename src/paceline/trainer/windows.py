"""The open window: batches delivered and stepped since the last push of a part.

Pure.
"""

from typing import final

import msgspec

from paceline.ids import Span, TaskKey, Window


class _Entry(msgspec.Struct, frozen=True):
    key: TaskKey
    batch: int
    records: int


@final
class OpenWindow:
    """What the next push of a part will be computed from."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._delivered: list[_Entry] = []
        self._stepped: list[_Entry] = []

    def deliver(self, key: TaskKey, batch: int, records: int) -> None:
        """A batch was handed to the user."""
        self._delivered.append(_Entry(key, batch, records))

    def reopen(self, window: Window) -> None:
        """A window that was closed has had no effect, and its batches shall have none.

        They go along with what is stepped next, without a record of their own.
        """
        entries = [
            _Entry(key, batch, 0)
            for key, span in zip(window.task_keys(), window.spans, strict=True)
            for batch in range(span.first, span.last + 1)
        ]
        self._stepped = entries + self._stepped

    def take_back(self, key: TaskKey, batch: int) -> None:
        """The batch delivered last was not delivered after all."""
        entry = self._delivered.pop()
        assert (entry.key, entry.batch) == (key, batch), f"{entry} was delivered last"

    def undo_step(self) -> None:
        """What was stepped awaits its step again."""
        self._delivered, self._stepped = self._stepped + self._delivered, []

    def copy(self) -> "OpenWindow":
        """As it is now."""
        window = OpenWindow()
        window._delivered, window._stepped = list(self._delivered), list(self._stepped)
        return window

    def step(self, *, but: int = 0) -> bool:
        """The user stepped, over all ``but`` the newest; false if that is nothing."""
        stepped = self._delivered[: len(self._delivered) - but]
        self._stepped += stepped
        self._delivered = self._delivered[len(stepped) :]
        return bool(stepped)

    def drop_delivered(self) -> None:
        """What was delivered and not stepped will not be."""
        self._delivered = []

    def has_delivered(self) -> bool:
        """Whether a batch awaits its step."""
        return bool(self._delivered)

    def num_delivered(self) -> int:
        """Batches that await their step."""
        return len(self._delivered)

    def is_open(self) -> bool:
        """Whether there is anything to push or to step."""
        return bool(self._delivered or self._stepped)

    def num_batches(self, *, with_delivered: bool) -> int:
        """Stepped batches, and those that await their step."""
        return len(self._stepped) + (len(self._delivered) if with_delivered else 0)

    def close(self) -> tuple[Window, int]:
        """The window of all stepped batches and its records; empty from here on."""
        entries, self._stepped = self._stepped, []
        first = entries[0].key
        spans: list[Span] = []
        records = 0
        for entry in entries:
            key, batch = entry.key, entry.batch
            records += entry.records
            assert key is first or key[:2] == first[:2], f"{key} is of another epoch"
            if spans and spans[-1].task == key.task:
                assert batch == spans[-1].last + 1
                spans[-1] = spans[-1]._replace(last=batch)
            else:
                spans.append(Span(key.task, batch, batch))
        return Window(first.stage, first.epoch, tuple(spans)), records
