"""Named tensors as files of a cut, in safetensors.

The hash in the `FileEntry` covers the whole file, header and numbers: safetensors itself
notices a truncated file but not a flipped bit. Nothing is unpickled.

Waits: for storage. Any thread. The only module of the store that imports torch.
"""

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.server import FileEntry
from paceline.store.blobs import BlobStore
from paceline.store.cuts import FROZEN_DTYPES, RawTensor, file_buffers

_LENGTH_BYTES = 8  # a file begins with the length of its JSON header, little-endian


class _Header(msgspec.Struct):
    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


def write_tensors(
    store: BlobStore, name: str, tensors: dict[str, torch.Tensor], metadata: dict[str, str]
) -> FileEntry:
    """Write CPU tensors of any shape and dtype as the file ``name``, with some words.

    The tensors must not change meanwhile and are not kept. They are written from where
    they lie: in a local folder nothing is copied.

    Raises:
        StoreError: two tensors share memory, one has a dtype that no file holds, the name
            is taken, or the storage fails.
    """
    packed = {key: tensor.detach().contiguous() for key, tensor in tensors.items()}
    places = [tensor.data_ptr() for tensor in packed.values() if tensor.numel()]
    try:
        if len(set(places)) < len(places):
            raise ValueError("some share memory")
        raw = {key: _raw(tensor) for key, tensor in packed.items()}
    except ValueError as error:
        raise StoreError(f"{store.url}/{name}: cannot write tensors: {error}") from error
    return store.write(name, file_buffers(raw, metadata))


def _raw(tensor: torch.Tensor) -> RawTensor:
    known = FROZEN_DTYPES.get(str(tensor.dtype).removeprefix("torch."))
    if known is None:
        raise ValueError(f"{tensor.dtype} is none of {', '.join(FROZEN_DTYPES)}")
    # Not reshaped: of a single element the stride may be 0, which no other dtype takes.
    flat = tensor.as_strided((tensor.numel(),), (1,))
    data = flat.view(torch.uint8).numpy().data
    return RawTensor(known[0], tuple(tensor.shape), data)


def read_tensors(
    store: BlobStore, entry: FileEntry
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """All tensors and words of the file ``entry``, or nothing.

    The tensors are new, on the CPU, writable, and the caller's.

    Raises:
        CheckpointCorrupt: the file is missing, its size or hash differ from the entry, or
            it is not in safetensors.
    """
    data = store.read_entry(entry)
    try:
        tensors = safetensors.torch.load(data)
        length = int.from_bytes(data[:_LENGTH_BYTES], "little")
        header = msgspec.json.decode(
            data[_LENGTH_BYTES : _LENGTH_BYTES + length], type=_Header
        )
    except (SafetensorError, msgspec.DecodeError, KeyError, ValueError) as error:
        raise CheckpointCorrupt(
            f"{store.url}/{entry.name}: not in safetensors: {error}"
        ) from error
    return tensors, header.metadata
