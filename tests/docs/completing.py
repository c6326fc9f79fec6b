"""What the fragments of the pages need around them in order to run.

A page speaks of `model`, `dataset` and the like, which are the reader's. Here they are made
small. The blocks of a page run in its order in one process, whose job is embedded, in one
namespace: what a block needs and the page does not say stands in ``before``; ``after`` lets
it do something; ``instead`` puts small things where the page names large ones. Nothing else
of a block is changed. Warnings are errors.
"""

import re
from typing import NamedTuple

from tests.docs.blocks import Block, all_blocks

ELLIPSIS = re.compile(r"(?m)(?<=: )\.\.\.|^(\s+)\.\.\.")  # the reader's own loop
# {a page whose loop is cut short: what goes on there}
REST_OF_LOOP = {
    "docs/index.md": """\
loss = F.binary_cross_entropy_with_logits(model(features), label)
loss.backward()
optimizer.step()
optimizer.zero_grad()
""",
    "docs/command-line.md": """\
model = Net()
optimizer = session.share(model, Adam(model.parameters(), lr=rate))
for x, y in session.batches(dataset, 64):
    F.binary_cross_entropy_with_logits(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
}

ALWAYS = """\
import os, warnings
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

import paceline

warnings.simplefilter("error")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.backbone(x).tanh()).squeeze(1)


inputs = torch.randn(256, 4)
dataset = TensorDataset(inputs, (inputs.sum(1) > 0).float())
data, epochs, stepped = dataset, 2, 0


def step(batch):
    global stepped
    x, y = batch
    F.binary_cross_entropy_with_logits(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    stepped += 1


def anew():
    global session, model, optimizer
    if "session" in globals():
        session.close()
    session = paceline.connect()
    model = Net()
    optimizer = Adam(model.parameters())
"""
STEPS = """
for batch in session.batches(dataset, 64):
    step(batch)
assert stepped >= 4
"""
TRAIN = f"""{ALWAYS}
import sys

assert sys.argv[1:] == ["--learning-rate", "0.01"]
anew()
optimizer = session.share(model, optimizer)
for batch in session.batches(dataset, 64):
    step(batch)
    session.log(loss=0.5)
"""


class Completed(NamedTuple):
    """What stands around a block: code before and after it, and words of it replaced."""

    before: str = ""
    after: str = ""
    instead: tuple[tuple[str, str], ...] = ()
    is_file: str = ""  # the block is a module of this name beside the script


WHOLE = Completed()
THREE_LINES = Completed(after="assert session.records == 256\nsession.close()\n")
RUN: dict[str, Completed] = {  # {block: what completes it}
    "README.md: +session = paceline.connect()": THREE_LINES,
    "docs/index.md: +session = paceline.connect()": THREE_LINES,
    "docs/between-trainers.md: import numpy as np, paceline": Completed(
        after="assert session.records == 60_000 and np.isfinite(model.centroids).all()\n"
    ),
    "docs/between-trainers.md: optimizer = session.share(model, torch.optim": Completed(
        "anew()\n", STEPS
    ),
    "docs/between-trainers.md: session.poll() # from here on this trainer h": Completed(
        # Nobody else is there: tests/system/test_events_between.py has two trainers.
        "names = []\nsession.send = lambda to, *a, **k: names.append(to)\n",
        'assert names == ["trainer-1", "all"]\n',
        (("timeout_s=1.0", "timeout_s=0.01"),),
    ),
    "docs/checkpoints.md: from safetensors.torch import load_file": Completed(
        "import sys\nfrom paceline.cli.main import main\n"
        "anew()\noptimizer = session.share(model, optimizer)\n"
        + STEPS
        + "trained, model = model.state_dict(), Net()\n"
        'folder = str(next(Path("runs").iterdir()))\nsession.close()\n'
        'sys.argv = ["paceline", "checkpoint", "export", folder]\n'
        'sys.argv += ["--out", "model.safetensors"]\n'
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n",
        "assert all(torch.equal(model.state_dict()[n], trained[n]) for n in trained)\n",
    ),
    "docs/data.md: import paceline": Completed(
        "for n in range(2):\n"
        '    with open(f"flights-{n}.csv", "w") as file:\n'
        '        file.write("carrier,hour,late\\n" + f"AA,{n},0.5\\n" * 300)\n'
        "session = paceline.connect()\n"
        'session.table("seen", (1,))\n',  # no model here: a loop that steps nothing
        'assert batch["hour"].dtype == torch.int64 and set(batch["carrier"]) == {"AA"}\n',
        (("s3://bucket/", ""),),
    ),
    "docs/data.md: rows = embedding(batch.ids) # (features, dim": Completed(
        'with open("part.svm", "w") as file:\n'
        '    file.write("1 3:0.5 7:2\\n0 7:1\\n")\n'
        "anew()\n"
        'embedding = session.embedding("words", 4)\n'
        'for batch in session.batches(paceline.data.Libsvm("part.svm"), batch_size=2):\n'
        "    break\n",
        "assert rows.shape == (3, 4) and sums.shape == (2, 4)\nsession.stop('seen')\n",
    ),
    "docs/paces.md: total = len(dataset) * epochs": Completed(
        "anew()\noptimizer = session.share(model, optimizer)\n",
        STEPS + 'assert optimizer.param_groups[0]["lr"] < 1e-3\n',
    ),
    "docs/paces.md: def one_cycle(records):": Completed(
        "import math\n",
        "assert one_cycle(0) == 0.04 and round(one_cycle(0.3 * total), 6) == 1.0\n"
        "assert round(one_cycle(2 * total), 6) == 0.04\n",
    ),
    "docs/rotation.md: import numpy as np, paceline": WHOLE,
    "docs/tables.md: import numpy as np, paceline": Completed(
        "all_ids, all_scores = np.arange(4096), np.random.rand(4096, 8)\n",
        "assert (counts.pull(all_ids) == 3).all()\n",
    ),
    "docs/tables.md: # rules.py, beside train.py": Completed(
        is_file="rules.py",
        after="import rules\n"
        'bits = session.table("bits", (4,), "int64", combine="union")\n'
        "bits.push(np.array([1]), np.array([5]))\n"
        "bits.push(np.array([1]), np.array([2]))\n"
        "assert bits.pull(np.array([1])) == 7\n",
    ),
    "docs/tables.md: for ids in session.batches(data, batch_size=": Completed(
        'users = session.table("users", (None,), "int64")\n'
        'items = session.table("items", (1,), "int64")\n'
        "data = np.arange(128)\n",
        "assert items.pull(np.array([0])) == 128 and (users.pull(data) == 1).all()\n",
    ),
    'docs/tables.md: scores = session.table("scores", (None, 8),': (
        Completed(
            "def improve(rows):\n    return rows + 1\n\n\n",
            "assert (scores.pull(data) == 1).all()\n",
        )
    ),
    "docs/training-script.md: session = paceline.connect() # (1) joins the": Completed(
        "model = Net()\noptimizer = Adam(model.parameters())\n", "assert stepped == 1\n"
    ),
    "docs/training-script.md: model.load_state_dict(pretrained)": Completed(
        "pretrained = {n: torch.ones_like(v) for n, v in model.state_dict().items()}\n",
        "assert (model.head.weight == 1).all()\n",
    ),
    "docs/training-script.md: optimizer = session.share(model, Adam(model.": Completed(
        "anew()\nmodel.backbone.requires_grad_(False)\n", "assert stepped == 17\n"
    ),
    "docs/training-script.md: optimizer = session.share(model, optimizer,": (
        Completed("anew()\n", STEPS)
    ),
    "docs/training-script.md: auc = session.evaluate(BinaryAUROC(threshold": Completed(
        "from torchmetrics.classification import BinaryAUROC\n"
        "test = TensorDataset(inputs, dataset.tensors[1].long())\n",
        'assert 0 <= auc <= 1 and os.path.isfile("predictions/predictions.json")\n',
    ),
    'docs/training-script.md: if session.once("report"):': Completed(
        after='assert "head.weight" in torch.load("model.pt")\n'
    ),
    "docs/training-script.md: def best_loss():": Completed(
        "anew()\noptimizer = session.share(model, optimizer)\n"
        "losses = iter([3.0, 5.0] * 5)\nvalidate = lambda model: next(losses)\n",
        "assert best_loss() == 3.0\n",
    ),
    "docs/training-script.md: def seen():": Completed(
        "import json\n"
        "measured = iter([3.0, 5.0] * 5)\nvalidate = lambda model: next(measured)\n",
        "assert seen() == [3.0, 5.0, 3.0, 5.0]\n"
        "anew()\noptimizer = session.share(model, optimizer)\n",
    ),
    "docs/training-script.md: session.track(scheduler=scheduler, scaler=sc": Completed(
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)\n"
        'scaler = torch.amp.GradScaler("cpu")\n'
        "average = torch.optim.swa_utils.AveragedModel(model)\n",
        STEPS,
    ),
    "docs/training-script.md: embeddings = session.share(table, torch.opti": Completed(
        "anew()\ntable, tower = nn.Embedding(50, 4, sparse=True), nn.Linear(4, 1)\n",
        "for ids in session.batches(torch.arange(50), 10):\n"
        "    tower(table(ids)).square().mean().backward()\n"
        "    for one in (embeddings, rest):\n"
        "        one.step()\n"
        "        one.zero_grad()\n",
    ),
    "docs/command-line.md: import paceline": Completed(
        f"Path('train.py').write_text({TRAIN!r})\n",
        "assert summary.records == 256\n",
        (("trainers=4, servers=2", "trainers=2"),),
    ),
    "docs/command-line.md: def train(rate):": Completed(
        after="assert summary.records == 256\n",
        instead=(("trainers=4", "trainers=1"),),
    ),
}


def pages_that_run() -> list[str]:
    """Pages with blocks that run, in order."""
    return list(dict.fromkeys(name.partition(":")[0] for name in RUN))


def script_of(page: str) -> str:
    """The blocks of a page that run, in order, completed, as one script."""
    blocks = [b for b in all_blocks() if b.page == page and b.name in RUN]
    return ALWAYS + "\n\n".join(map(_completed, blocks))


def sides(text: str) -> tuple[str, str]:
    """What a difference takes away and what it puts in its place, each whole."""
    lines = text.splitlines(keepends=True)
    return (
        "".join(line[1:] for line in lines if not line.startswith("+")),
        "".join(line[1:] for line in lines if not line.startswith("-")),
    )


def _completed(block: Block) -> str:
    around = RUN[block.name]
    before, after = sides(block.text) if block.kind == "diff" else ("", block.text)
    text = f"{before}\n{after}"
    for told, small in around.instead:
        assert told in text, f"{block.name} does not say {told!r} any more"
        text = text.replace(told, small)
    text = ELLIPSIS.sub(lambda found: f"{found[1] or ''}{_rest(block, found[1])}", text)
    if around.is_file:
        text = f"with open({around.is_file!r}, 'w') as file:\n    file.write({text!r})\n"
    return f"{around.before}{text}\n{around.after}"


def _rest(block: Block, indent: str | None) -> str:
    rest = REST_OF_LOOP.get(block.page, "step(batch)\n").splitlines()
    return f"\n{indent or ''}".join(rest)
