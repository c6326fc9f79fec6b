"""What a service does once outcomes are journalled: answers, cuts, lines of the log.

Pure.
"""

from typing import NamedTuple

import msgspec

from paceline.coordinator.ledgers.cuts import ManifestOrder
from paceline.messages.shared import Message


class SendReply(msgspec.Struct, frozen=True):
    """Effect: answer a question."""

    ticket: int
    message: Message


class WriteManifest(NamedTuple):
    """Effect: make a cut true; answered by the event `ManifestWritten`."""

    order: ManifestOrder


class DropCut(NamedTuple):
    """Effect: remove what a cut that was given up has written."""

    folder: str


class SeekCut(NamedTuple):
    """Effect: find the newest whole cut older than this one; answered by `CutSought`."""

    cut: int
    timeline: int
    folder: str


class Happened(NamedTuple):
    """Effect: one line for the event log, beside those of the outcomes."""

    event: str
    fields: dict[str, object]


Effect = SendReply | WriteManifest | DropCut | SeekCut | Happened
