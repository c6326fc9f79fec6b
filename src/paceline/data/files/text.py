"""Text files, one record a line.

Waits: for storage. The trainer's own thread calls.
"""

from collections.abc import Callable
from typing import Any, final

from paceline.data.files.files import Options, Paths, describe_files
from paceline.data.files.lines import cut_lines, open_lines
from paceline.data.source import ItemSource, Records
from paceline.errors import DataError, UsageError


@final
class Text(ItemSource):
    """Lines of UTF-8 text; a batch is a list of ``str`` without their line breaks.

    An empty line is a record too. Opening reads every file once, for an index of 8 bytes
    a line; a batch then costs one read for each run of lines that lie close together.

    Args:
        paths: path, glob, or a list of them, as fsspec takes them.
        transform: list of lines -> the batch that the loop gets.
        storage_options: for the file system, e.g. ``{"anon": True}`` for ``s3://``.

    Raises:
        UsageError: a file is missing or packed, a glob matches nothing, or there is no
            line.
        DataError: the storage fails.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        transform: Callable[[list[str]], Any] | None = None,
        storage_options: Options | None = None,
    ) -> None:
        super().__init__(transform)
        self._index = open_lines(paths, storage_options, cut_lines)
        if not len(self._index):
            raise UsageError(f"Text: no line in {describe_files(self._index.files)}")

    def __len__(self) -> int:
        return len(self._index)

    def read(self, records: Records) -> list[str]:
        """The lines at these indices.

        Raises:
            DataError: a line is not UTF-8, or the storage fails.
        """
        found = []
        for record, line in zip(records.tolist(), self._index.read(records), strict=True):
            try:
                found.append(line.removesuffix(b"\n").removesuffix(b"\r").decode())
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self._index.where(record)}: expected UTF-8 text, got {error}"
                ) from error
        return found

    def items(self, records: Records) -> list[str]:
        """The lines at these indices."""
        return self.read(records)

    def join(self, items: list[str]) -> list[str]:
        """The lines themselves."""
        return items

    def fingerprint(self) -> str:
        """Names, sizes and a hash of the files (`LineIndex.describe`), number of lines."""
        return f"Text {self._index.describe()} x {len(self)}"
