"""Trainers send each other events of all sizes; each checks what it has got."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import paceline
from paceline.trainer.peers.events import Event

NAMES = ("trainer-0", "trainer-1", "trainer-2")
NUMBER = 60  # of each sender to each receiver
PATIENCE_S = 100.0


def payload(sender: str, number: int) -> bytes | tuple[np.ndarray, ...]:
    """What an event brings: bytes, small arrays, or one that is too large for a frame."""
    draw = np.random.default_rng([NAMES.index(sender), number])
    if number % 3 == 0:
        return draw.bytes(number)
    width = 300_000 if number % 10 == 1 else number
    return draw.standard_normal(width), draw.integers(0, 9, (2, number), np.int8)


def is_right(event: Event, number: int) -> bool:
    """Whether an event is the sender's so-many-eth, as it was sent."""
    sent = payload(event.sender, number)
    if isinstance(sent, bytes):
        return event.topic == str(number) and event.payload == sent
    same = [
        one.dtype == other.dtype and np.array_equal(one, other)
        for one, other in zip(sent, event.payload, strict=True)
        if isinstance(other, np.ndarray)
    ]
    return event.topic == str(number) and same == [True, True]


def main() -> None:
    """Send to all others while they send; then look at what came."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()
    session = paceline.connect()
    numbers = session.table("numbers", (30,), "int64")
    for batch in session.batches(torch.arange(30), 1):
        numbers.push(batch, 1)
    others = [name for name in NAMES if name != session.trainer]
    came: dict[str, list[Event]] = {name: [] for name in others}
    for number in range(NUMBER):
        for other in others:
            sent = payload(session.trainer, number)
            session.send(other, sent, topic=str(number), timeout_s=PATIENCE_S)
        for event in session.poll():
            came[event.sender].append(event)
    while any(len(events) < NUMBER for events in came.values()):
        for event in session.events(PATIENCE_S):
            came[event.sender].append(event)
    wrong = [
        f"{name} {number}"
        for name, events in came.items()
        for number, event in enumerate(events)
        if not is_right(event, number)
    ]
    told = {"exact": not wrong, "wrong": wrong, "came": sum(map(len, came.values()))}
    flags.out.with_name(f"{session.trainer}.json").write_text(json.dumps(told))
    if session.once("check"):
        flags.out.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
