"""Tensors come back to the bit, or not at all."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.store.blobs.blobs import BlobStore
from paceline.store.tensors import read_tensors, write_tensors


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool],
)
def test_tensors_come_back_to_the_bit(store: BlobStore, dtype: torch.dtype) -> None:
    tensors = {
        "matrix": torch.arange(12).reshape(3, 4).to(dtype),
        "turned": torch.arange(12).reshape(3, 4).to(dtype).t(),
        "scalar": torch.tensor(1).to(dtype),
        "empty": torch.zeros(0, 7, dtype=dtype),
        "without strides": torch.tensor([1]).to(dtype).as_strided((1,), (0,)),
    }
    entry = write_tensors(store, "server-0.safetensors", tensors, {"marks": "{}"})
    read, metadata = read_tensors(store, entry)
    assert metadata == {"marks": "{}"}
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == dtype
        assert read[name].shape == tensor.shape
        assert torch.equal(read[name], tensor)


def test_non_finite_numbers_and_parameters_survive(store: BlobStore) -> None:
    weight = torch.nn.Parameter(torch.tensor([float("nan"), float("inf"), -0.0]))
    entry = write_tensors(store, "a", {"weight": weight}, {})
    read, metadata = read_tensors(store, entry)
    assert metadata == {}
    assert torch.equal(read["weight"].view(torch.int32), weight.detach().view(torch.int32))
    read["weight"].add_(1)
    assert not read["weight"].requires_grad


def test_nothing_is_a_file_too(store: BlobStore) -> None:
    entry = write_tensors(store, "empty", {}, {"rows": "0"})
    assert read_tensors(store, entry) == ({}, {"rows": "0"})


def test_every_mutation_is_noticed(store: BlobStore) -> None:
    entry = write_tensors(
        store, "a", {"w": torch.randn(4, 5), "m": torch.zeros(3)}, {"k": "v"}
    )
    path = Path(store.url) / "a"
    pristine = path.read_bytes()
    dice = random.Random(2)
    for number in range(300):
        data = bytearray(pristine)
        position = dice.randrange(len(data))
        if number % 3:
            data[position] ^= 1 << dice.randrange(8)
        else:
            del data[position:]
        path.write_bytes(data)
        with pytest.raises(CheckpointCorrupt, match="/a: expected"):
            read_tensors(store, entry)


def test_file_that_is_no_safetensors_is_refused(store: BlobStore) -> None:
    entry = store.write("a", [b"\x80\x04\x95a pickle, say"])
    with pytest.raises(CheckpointCorrupt, match="/a: not in safetensors"):
        read_tensors(store, entry)


def test_tensors_that_share_memory_are_refused(store: BlobStore) -> None:
    tensor = torch.zeros(4)
    with pytest.raises(StoreError, match="share memory"):
        write_tensors(store, "a", {"one": tensor, "two": tensor}, {})
    assert not store.exists("a")


def test_a_dtype_that_no_file_holds_is_refused(store: BlobStore) -> None:
    with pytest.raises(StoreError, match=r"torch\.complex128 is none of"):
        write_tensors(store, "a", {"one": torch.zeros(4, dtype=torch.complex128)}, {})


def test_a_file_is_what_safetensors_itself_would_make(store: BlobStore) -> None:
    tensors = {
        "slot/10/values": torch.randn(2, 3),
        "slot/9/state/step": torch.tensor(3.0),
        "slot/9/table/user/ids": torch.arange(4),
        "standing": torch.zeros(7, dtype=torch.uint8),
    }
    write_tensors(store, "a", tensors, {"k": 'v "w"'})
    expected = safetensors.torch.save(tensors, {"k": 'v "w"'})
    assert (Path(store.url) / "a").read_bytes() == expected


@pytest.mark.system
def test_the_store_without_tensors_does_not_import_torch() -> None:
    program = (
        "import sys, paceline.store.journal, paceline.store.cuts.manifest;"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
