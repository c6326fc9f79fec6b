"""torch's compiler is loaded by whoever compiles, and by nobody else.

Each script has a process of its own: in this one somebody may have loaded it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

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

COMPILING = """
import sys, torch
from paceline.torch_compiler import leave_out, not_compiled

leave_out()
graphs = []

def backend(graph, _):
    graphs.append(graph.code)
    return graph.forward

@not_compiled
def doubled(values):
    return values.mul(2)

def around(values):
    return doubled(values.sin()).cos()

values = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([values], lr=0.5, momentum=0.5)
plain = around(values)
assert "torch._dynamo" not in sys.modules
assert torch.equal(torch.compile(around, backend=backend)(values), plain)
assert "torch._dynamo" in sys.modules
code = "".join(graphs)
print([name in code for name in ("sin", "cos", "mul")])

values.grad = torch.ones(2)
optimizer.step()
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
print(values.grad, values.tolist(), len(optimizer.param_groups))
"""

ANOTHER_TORCH = """
import sys, torch
del sys.modules["torch.optim.optimizer"]._use_grad_for_differentiable
from paceline.torch_compiler import leave_out, not_compiled, step_of

leave_out()
values = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([values], lr=0.5)
values.grad = torch.ones(2)
step_of(torch.optim.SGD)(optimizer)
print(not_compiled(values.tolist)())
"""


def said(script: str, folder: Path) -> str:
    """What a script prints in a process of its own."""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_a_job_with_rows_and_every_optimizer_never_loads_it(tmp_path: Path) -> None:
    assert said(JOB, tmp_path) == "['numba']\n"


@pytest.mark.slow
def test_what_was_marked_before_it_was_loaded_is_a_break_in_the_first_graph(
    tmp_path: Path,
) -> None:
    assert said(COMPILING, tmp_path) == "[True, True, False]\nNone [0.5, 0.5] 2\n"


@pytest.mark.slow
def test_a_torch_with_other_names_is_left_to_do_as_it_does(tmp_path: Path) -> None:
    assert said(ANOTHER_TORCH, tmp_path) == "[0.5, 0.5]\n"
