"""TensorBoard: event files in a folder of the job's own, below a log folder.

::

    FOLDER/<job>/events.out.tfevents.<t>.paceline-<job id>             the job
    FOLDER/<job>/<trainer>/events.out.tfevents.<t>.paceline-<job id>   with --by-trainer

Steps are records. What a file holds follows from the events alone, byte for byte: whoever
goes on cuts each file to what the mark says, and writes the same again, so that no point is
doubled or lost, and a TensorBoard that has read further than the mark reads on.

Neither torch nor TensorFlow is loaded. Waits: for the file system only.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, final

from paceline.errors import StoreError, UsageError
from paceline.trackers.points import Happening, Told
from paceline.trackers.tracker import Kept, RunEnd, TrackedRun

_NAME = re.compile(r"events\.out\.tfevents\.[0-9]+\.paceline-([0-9a-f]+)")
_BAR = str.maketrans({"|": "\\|", "\n": " "})  # in a table of Markdown


@final
class TensorBoard:
    """Event files; a `RunTracker`."""

    def __init__(self, folder: Path) -> None:
        """Nothing is made yet.

        Raises:
            UsageError: ``paceline[tensorboard]`` is not installed.
        """
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415
            from tensorboard.summary.writer import record_writer  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise UsageError(
                f"TensorBoard files need {error.name}: pip install 'paceline[tensorboard]'"
            ) from error
        self._events: Any = event_pb2  # Any: made by protobuf as it is loaded
        self._summaries: Any = summary_pb2
        self._records: Any = record_writer
        self._folder = folder
        self._run: TrackedRun | None = None
        self._files: dict[str, IO[bytes]] = {}  # {path below the run's folder: open}
        self._kept: dict[str, int] = {}  # {the same: bytes}; of files not written to yet

    def begin(self, run: TrackedRun, kept: Kept | None) -> bool:
        """See `RunTracker`."""
        self._run = run
        self._folder = self._folder / run.name
        mine = self._own_files()
        if kept is not None and all(
            isinstance(size, int) and mine.get(name, -1) >= size
            for name, size in kept.items()
        ):
            self._kept = {name: int(size) for name, size in kept.items()}
            for name, size in self._kept.items():
                with self._translated():
                    os.truncate(self._folder / name, size)
            return True
        for name in mine:
            with self._translated():
                (self._folder / name).unlink()
        return False

    def write(self, told: Sequence[Told]) -> None:
        """See `RunTracker`."""
        assert self._run is not None
        for point in itertools.chain(*told):
            if isinstance(point, Happening):
                value = self._text("paceline/happened", point.text)
                self._add("", point.t, point.records, value)
                continue
            value = self._summaries.Summary.Value(tag=point.name, simple_value=point.value)
            trainer = point.trainer if self._run.by_trainer else ""
            self._add(trainer, point.t, point.records, value)

    def settle(self) -> Kept:
        """See `RunTracker`; a file that a crash of the machine has cut is written anew."""
        kept: Kept = dict(self._kept)
        with self._translated():
            for name, file in self._files.items():
                file.flush()
                kept[name] = file.tell()
        return kept

    def end(self, end: RunEnd) -> None:
        """Nothing: how a job has ended is no number, and its happenings are there."""

    def close(self) -> None:
        """See `RunTracker`."""
        while self._files:
            with self._translated():
                self._files.popitem()[1].close()

    def _add(self, trainer: str, t: float, step: int, value: object) -> None:
        summary = self._summaries.Summary(value=[value])
        event = self._events.Event(wall_time=t, step=step, summary=summary)
        self._write(self._file(trainer, t), event.SerializeToString())

    def _write(self, file: IO[bytes], event: bytes) -> None:
        with self._translated():
            self._records.RecordWriter(file).write(event)

    def _file(self, trainer: str, t: float) -> IO[bytes]:
        assert self._run is not None
        known = [
            name for name in {**self._kept, **self._files} if _trainer_of(name) == trainer
        ]
        name = known[0] if known else self._name(trainer, t)
        if name in self._files:
            return self._files[name]
        path = self._folder / name
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab" if known else "wb")
        self._files[name] = file
        if not self._kept.pop(name, 0):
            version = self._events.Event(wall_time=t, file_version="brain.Event:2")
            self._write(file, version.SerializeToString())
            if not trainer:
                table = self._text("paceline/parameters", _table(self._run.parameters))
                self._add("", t, 0, table)
        return file

    def _name(self, trainer: str, t: float) -> str:
        assert self._run is not None
        name = f"events.out.tfevents.{int(t)}.paceline-{self._run.job}"
        return f"{trainer}/{name}" if trainer else name

    def _text(self, tag: str, text: str) -> object:
        from tensorboard.compat.proto import tensor_pb2, tensor_shape_pb2  # noqa: PLC0415
        from tensorboard.compat.proto.types_pb2 import DT_STRING  # noqa: PLC0415

        meta = self._summaries.SummaryMetadata
        shape = tensor_shape_pb2.TensorShapeProto
        return self._summaries.Summary.Value(
            tag=tag,
            metadata=meta(plugin_data=meta.PluginData(plugin_name="text")),
            tensor=tensor_pb2.TensorProto(
                dtype=DT_STRING,
                tensor_shape=shape(dim=[shape.Dim(size=1)]),
                string_val=[text.encode()],
            ),
        )

    def _own_files(self) -> dict[str, int]:
        """Files of this job, {path below its folder: bytes}; of another, none may be."""
        assert self._run is not None
        found = {}
        for path in [*self._folder.glob("events.*"), *self._folder.glob("*/events.*")]:
            name = _NAME.fullmatch(path.name)
            if name is None or name[1] != self._run.job:
                raise UsageError(
                    f"{path} is of another run: name another folder than "
                    f"{self._folder.parent}, or remove {self._folder}"
                )
            found[str(path.relative_to(self._folder))] = path.stat().st_size
        return found

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot write to {self._folder}: {error}") from error


def _trainer_of(name: str) -> str:
    return name.rpartition("/")[0]


def _table(parameters: dict[str, str | int | float]) -> str:
    rows = [
        f"| {name} | {str(value).translate(_BAR)} |" for name, value in parameters.items()
    ]
    return "\n".join(["| | |", "|---|---|", *rows])
