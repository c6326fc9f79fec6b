"""A job whose every push adds one to a million elements, and that looks at all it reads.

What is found torn goes to a file beside the verdict, and what each trainer read to another.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn
from whole import read_regardless, why_torn  # beside this script

import paceline
from paceline.params.published import Bytes, ValuesReader

NUM_PARAMETERS = 2


class Million(nn.Module):
    """A million elements in parameters of one length."""

    def __init__(self) -> None:
        super().__init__()
        length = (1 << 20) // NUM_PARAMETERS
        parts = [nn.Parameter(torch.zeros(length)) for _ in range(NUM_PARAMETERS)]
        self.parts = nn.ParameterList(parts)

    def values(self) -> list[torch.Tensor]:
        """What was read last."""
        return [part.detach() for part in self.parts]


def count_reads(counts: Counter[str], *, is_mutant: bool) -> None:
    """Count how often values are read in place; the mutant does not look if it may."""
    honest = ValuesReader.read_into

    def read(reader: ValuesReader, places: Mapping[int, Bytes], at: int) -> int | None:
        found = (read_regardless if is_mutant else honest)(reader, places, at)
        counts["asked" if found is None else "in place"] += 1
        return found

    ValuesReader.read_into = read  # type: ignore[method-assign]  # what the job is for


def main() -> None:
    """Train, look at everything, and check the end in one trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    parser.add_argument("--rounds", action="store_true", help="the pace has rounds")
    parser.add_argument("--mutant", action="store_true", help="read without looking")
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()

    counts: Counter[str] = Counter()
    count_reads(counts, is_mutant=flags.mutant)
    session = paceline.connect()
    model = Million()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    torn_file = flags.out.with_name("torn")
    for _ in session.batches(torch.zeros(flags.batches), 1, task_size=10):
        # Here, and not behind a step that may just have been undone and has warned of it.
        torn = why_torn(model.values(), flags.servers, is_round=flags.rounds)
        if torn is not None:
            with torn_file.open("a") as file:
                file.write(f"{torn}\n")
        time.sleep(flags.sleep_ms / 1000)
        for part in model.parts:
            part.grad = torch.full_like(part, -1.0)
        optimizer.step()
        optimizer.zero_grad()
    flags.out.with_name(f"reads-{os.getpid()}").write_text(json.dumps(counts))

    if session.once("check"):
        ends = {float(end) for value in model.values() for end in value.aminmax()}
        verdict = {"exact": ends == {float(flags.batches)}, "ends": sorted(ends)}
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
