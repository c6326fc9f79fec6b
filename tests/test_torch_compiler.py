"""torch's compiler is loaded by whoever compiles, and by nobody else."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from paceline.torch_compiler import _wait_with, leave_out, not_compiled

JOB = """
import sys, torch, paceline
from paceline.params.dense import OPTIMIZERS, OptimizeBlock

session = paceline.connect()
rows = paceline.Embedding("user", 2)
model = torch.nn.Sequential(rows, torch.nn.Linear(2, 1))
optimizer = session.share(model, torch.optim.Adam(model.parameters()))
data = torch.utils.data.TensorDataset(torch.arange(8))
for [ids] in session.batches(data, batch_size=4):
    model(ids).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
session.close()
session = paceline.connect()
model = torch.nn.Linear(2, 1)
optimizer = session.share(model, torch.optim.NAdam(model.parameters()), pace="local:2")
for [ids] in session.batches(data, batch_size=4):
    model(ids.float()[:, None].expand(-1, 2)).sum().backward()
    optimizer.step()
session.close()
for kind in OPTIMIZERS:
    OptimizeBlock(torch.ones(4), kind, {"lr": 0.1}).apply(torch.ones(4), {"lr": 0.1})
print([name for name in ("numba", "torch._dynamo") if name in sys.modules])
"""


@pytest.mark.slow
def test_a_job_with_rows_and_every_optimizer_never_loads_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", JOB],
        cwd=tmp_path_factory.mktemp("job"),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert found.stdout.strip() == "['numba']"


def test_once_it_is_loaded_what_is_marked_is_a_break_in_the_graph() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph.code)
        return graph.forward

    @not_compiled
    def doubled(values: torch.Tensor) -> torch.Tensor:
        return values.mul(2)

    def around(values: torch.Tensor) -> torch.Tensor:
        return doubled(values.sin()).cos()

    values = torch.ones(2)
    plain = around(values)
    found = torch.compile(around, backend=backend)(values)

    assert torch.equal(found, plain)
    code = "".join(graphs)
    assert "sin" in code
    assert "cos" in code
    assert "mul" not in code


def test_optimizers_do_as_before_with_the_compiler_and_without() -> None:
    leave_out()
    values = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([values], lr=0.5, momentum=0.5)
    values.grad = torch.ones(2)
    optimizer.step()  # loads it, if nothing has

    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})

    assert values.grad is None
    assert values.tolist() == [0.5, 0.5]
    assert len(optimizer.param_groups) == 2


def test_what_is_marked_in_another_way_stays_as_it_is() -> None:
    def function() -> None:
        """Not marked."""

    _wait_with(function)
    _wait_with(len)

    assert not vars(function)
