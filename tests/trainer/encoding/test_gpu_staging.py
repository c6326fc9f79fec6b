"""What lies on a GPU goes to servers and back as if it lay on the CPU."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import nn

from paceline.config import SGD, Zeros
from paceline.messages.shared import Block
from paceline.trainer.encoding.gpu_staging import Copies, Copy, HostGradients, copies_of
from paceline.trainer.encoding.tensor_bytes import ParameterMemory
from paceline.trainer.rows.embedding import Embedding
from tests.trainer.fake_job import FakeJob

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU that torch can use here"
)


class LateCopies:
    """A device whose copies into it come as late as they may."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._waiting: list[Copy] = []

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        self.done.append(f"host memory {tuple(tensor.shape)}")
        return torch.empty(tensor.shape, dtype=tensor.dtype)

    def wait_out(self, copies: Sequence[Copy]) -> None:
        self.happen()  # they follow what was given before
        for host, there in copies:
            host.copy_(there)
        self.done.append(f"{len(copies)} out")

    def send_in(self, copies: Sequence[Copy]) -> Callable[[], object]:
        self._waiting += copies
        return self.happen

    def happen(self) -> None:
        for host, there in self._waiting:
            with torch.no_grad():
                there.copy_(host)
            self.done.append("1 in")
        self._waiting = []


@pytest.fixture
def device() -> LateCopies:
    return LateCopies()


def on(device: LateCopies) -> Callable[[torch.device], Copies | None]:
    return lambda _: device


def land(memory: ParameterMemory, block: Block, value: float) -> None:
    memory.place(block).view(np.float32)[:] = value


def test_gradients_of_a_step_leave_a_device_together(device: LateCopies) -> None:
    staged = HostGradients(on(device))
    found = staged.wait_host({0: torch.ones(2, 3), 4: torch.full((5,), 7.0)})
    assert found[0].tolist() == [[1.0] * 3] * 2
    assert found[4].tolist() == [7.0] * 5
    assert device.done == ["host memory (2, 3)", "host memory (5,)", "2 out"]


def test_the_same_host_memory_serves_every_step(device: LateCopies) -> None:
    staged = HostGradients(on(device))
    first = staged.wait_host({0: torch.ones(2)})[0]
    second = staged.wait_host({0: torch.zeros(2)})[0]
    assert first is second
    other = staged.wait_host({0: torch.zeros(3, dtype=torch.float64)})[0]
    assert other.dtype is torch.float64, "the user may change a parameter's dtype"


def test_gradients_on_the_host_are_sent_from_where_they_are() -> None:
    gradient, rows = torch.ones(3), torch.eye(2).to_sparse(1)
    found = HostGradients().wait_host({0: gradient, 1: rows})
    assert found[0] is gradient
    assert found[1] is rows


def test_values_land_beside_a_parameter_and_are_brought_home(device: LateCopies) -> None:
    parameter = nn.Parameter(torch.arange(6.0))
    memory = ParameterMemory(parameter, copies_of=on(device))
    version = parameter._version
    land(memory, Block(0, 0, 2, 4), 9.0)
    memory.settle()
    device.happen()
    assert parameter.tolist() == [0.0, 1.0, 9.0, 9.0, 4.0, 5.0]
    assert parameter._version > version, "autograd knows"


def test_new_values_land_when_those_before_them_are_home(device: LateCopies) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    memory, block = ParameterMemory(parameter, copies_of=on(device)), Block(0, 0, 0, 2)
    land(memory, block, 1.0)
    memory.settle()
    assert parameter.tolist() == [0.0, 0.0], "the copy is under way"
    place = memory.place(block)
    assert parameter.tolist() == [1.0, 1.0], "it is over before the memory is written again"
    place.view(np.float32)[:] = 2.0
    memory.settle()
    device.happen()
    assert parameter.tolist() == [2.0, 2.0]


def test_a_parameter_on_the_cpu_is_its_own_memory() -> None:
    assert copies_of(torch.device("cpu")) is None
    parameter = nn.Parameter(torch.zeros(2))
    memory = ParameterMemory(parameter)
    land(memory, Block(0, 0, 0, 2), 3.0)
    assert parameter.tolist() == [3.0, 3.0]


# ------------------------------------------------------------ on a GPU


class Model(nn.Module):
    """A dense layer behind rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.rows = Embedding("rows", 4, optimizer=SGD(lr=0.1), init=Zeros())
        self.layers = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """A number for each id."""
        return self.layers(self.rows(ids) + 0.1 * ids[:, None])


def train_on(where: str, every: int = 1) -> dict[str, torch.Tensor]:
    """A run of twelve batches; the model at its end."""
    job = FakeJob(servers=2)
    with job.session() as session:
        model = Model()
        optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=0.01))
        model.to(where)
        data = torch.arange(48) % 7
        batches = session.batches(data, 4, shuffle=False, task_size=48)
        for count, ids in enumerate(batches, 1):
            model(ids.to(where)).square().mean().backward()
            if count % every == 0:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            rows = model.rows(torch.arange(7)).clone()
        return {"rows": rows, **{n: p.cpu() for n, p in model.state_dict().items()}}


@needs_gpu
@pytest.mark.parametrize("every", [1, 3])
def test_a_model_on_a_gpu_with_ids_on_a_gpu_learns_what_it_learns_on_the_cpu(
    every: int,
) -> None:
    expected = train_on("cpu", every)
    for name, value in train_on("cuda", every).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5)


@needs_gpu
def test_what_is_computed_next_on_a_gpu_follows_values_that_have_come() -> None:
    parameter = nn.Parameter(torch.zeros(1 << 22, device="cuda"))
    memory, block = ParameterMemory(parameter), Block(0, 0, 0, 1 << 22)
    for value in (1.0, 2.0, 3.0):
        land(memory, block, value)
        memory.settle()
        assert (parameter.detach() * 2).sum().item() == 2 * value * (1 << 22)
