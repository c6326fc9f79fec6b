"""State of the user's objects as bytes: what `state_dict` returns, and nothing that runs.

::

    bytes = safetensors: "tree" (uint8: msgpack of nested, tagged values), "0", "1", ...

Exact: what is decoded equals what was encoded, tensors to the bit. No pickle: numbers,
text, containers, tensors and arrays; anything else is refused by its path.

Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from paceline.errors import CheckpointCorrupt, UsageError

_TREE = "tree"
_WORD = 1 << 63

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def encode_state(state: object, name: str, call: str = "track") -> bytes:
    """A state as bytes; ``name`` of the object, and the user's ``call``, are for the error.

    It may be of nested dictionaries, lists, tuples, sets and counters of numbers, text,
    bytes, None, tensors and NumPy arrays.

    Raises:
        UsageError: it holds something else; the message says where.
    """
    tensors: dict[str, torch.Tensor] = {}
    tree = _encoder.encode(_taken_apart(state, f"{call}: {name}", tensors))
    tensors[_TREE] = torch.from_numpy(np.frombuffer(tree, np.uint8).copy())
    return save(tensors)


def decode_state(data: bytes) -> Any:  # noqa: ANN401  (whatever was encoded)
    """What `encode_state` was given.

    Raises:
        CheckpointCorrupt: these are no bytes of `encode_state`.
    """
    try:
        tensors = load(data)
        tree = _decoder.decode(tensors.pop(_TREE).numpy().tobytes())
        return _put_together(tree, tensors)
    except (SafetensorError, msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
        raise CheckpointCorrupt(f"not a state that was kept: {error!r}") from error


def _taken_apart(value: object, path: str, tensors: dict[str, torch.Tensor]) -> object:
    def inner(items: Iterable[object]) -> list[object]:
        return [
            _taken_apart(item, f"{path}[{index}]", tensors)
            for index, item in enumerate(items)
        ]

    if isinstance(value, torch.Tensor):
        tensors[str(len(tensors))] = value.detach().cpu().contiguous().clone()
        return ["tensor", str(len(tensors) - 1)]
    if isinstance(value, np.ndarray | np.generic):
        tensors[str(len(tensors))] = torch.from_numpy(np.array(value))
        return ["array", str(len(tensors) - 1)]
    if isinstance(value, Mapping):
        pairs = [
            [_taken_apart(k, path, tensors), _taken_apart(v, f"{path}[{k!r}]", tensors)]
            for k, v in value.items()
        ]
        return ["counter" if isinstance(value, Counter) else "dict", pairs]
    for kind, tag in ((list, "list"), (tuple, "tuple"), (set, "set")):
        if isinstance(value, kind):
            return [tag, inner(value)]
    if isinstance(value, int) and not -_WORD <= value < _WORD:
        return ["int", str(value)]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    raise UsageError(
        f"{path} is a {type(value).__name__}, which cannot be saved; expected "
        "numbers, text, containers, tensors and arrays"
    )


def _put_together(tree: Any, tensors: dict[str, torch.Tensor]) -> Any:  # noqa: ANN401
    if not isinstance(tree, list):
        return tree
    tag, content = tree
    if tag == "tensor":
        return tensors[content]
    if tag == "array":
        return tensors[content].numpy()
    if tag == "int":
        return int(content)
    if tag in {"dict", "counter"}:
        pairs = [(_put_together(k, tensors), _put_together(v, tensors)) for k, v in content]
        return Counter(dict(pairs)) if tag == "counter" else dict(pairs)
    makers: dict[str, Any] = {"list": list, "tuple": tuple, "set": set}
    return makers[tag](_put_together(item, tensors) for item in content)
