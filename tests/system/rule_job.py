"""Each record sets a bit of a row; the rule is the plugin's."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import paceline


def main() -> None:
    """Set bits in all trainers, check in one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    session = paceline.connect()
    bits = session.table("bits", (8,), "int64", combine="union")
    for number in session.batches(torch.arange(320), 8):
        bits.push(number % 8, 1 << (number // 8))
    if session.once("check"):
        exact = bool((bits.pull() == np.full(8, 2**40 - 1)).all())
        flags.out.write_text(json.dumps({"exact": exact}))


if __name__ == "__main__":
    main()
