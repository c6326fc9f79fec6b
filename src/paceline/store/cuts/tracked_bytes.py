"""Buffers of models in the state of tracked objects, as bytes: torch need not be there.

::

    safetensors: "tree" (uint8: msgpack), "0", "1", ...
    tree         ["dict", [["buffers of part 0", ["dict", [["1.running_mean",
                 ["tensor", "0"]], ...]]], ...]]

It is what trainers write; `paceline.trainer.encoding.state_codec` says all that a tree may
hold.

Pure.
"""

from collections.abc import Collection
from typing import Any

import msgspec
import safetensors
from safetensors import SafetensorError

from paceline.errors import CheckpointCorrupt
from paceline.store.cuts.shares import RawTensor

_TREE = "tree"


def read_buffers(data: bytes, states: Collection[str]) -> dict[str, dict[str, RawTensor]]:
    """Those of the named states that are there: ``{state: {buffer: tensor}}``.

    Raises:
        CheckpointCorrupt: these are no bytes of a state.
    """
    try:
        held = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]  # the library's door
        tree = msgspec.msgpack.decode(bytes(held[_TREE]["data"]))
        found: dict[str, dict[str, RawTensor]] = {}
        for state, content in _pairs(tree):
            if state in states:
                pairs = _pairs(content)
                found[state] = {name: _tensor(held, one) for name, one in pairs}
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointCorrupt(f"not a state that was kept: {error!r}") from error
    return found


def _pairs(tree: Any) -> list[tuple[str, Any]]:  # noqa: ANN401  (whatever was decoded)
    tag, pairs = tree
    if tag != "dict":
        raise ValueError(f"expected a dict, came a {tag!r}")
    return [(name, content) for name, content in pairs]


def _tensor(held: dict[str, Any], tree: Any) -> RawTensor:  # noqa: ANN401  (the same)
    tag, index = tree
    if tag != "tensor":
        raise ValueError(f"expected a tensor, came a {tag!r}")
    about = held[index]
    return RawTensor(about["dtype"], tuple(about["shape"]), bytes(about["data"]))
