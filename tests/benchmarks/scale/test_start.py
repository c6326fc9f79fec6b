"""The script whose start is timed tells when its first batch came, and what it holds."""

import argparse
import time

from benchmarks.scale.start_script import train


def test_the_plain_script_tells_of_its_first_batch_and_its_memory() -> None:
    began_s = time.monotonic()
    given = {"is_plain": True, "weigh": True, "values": 600, "optimizer": "adam"}
    found = train(argparse.Namespace(began=began_s, **given))
    wall_s, cpu_s = found["began"]
    assert 0 < wall_s < time.monotonic() - began_s
    assert cpu_s > 0
    assert found["values_mb"] == 6 * (10 * 10 + 10) * 4 / 1e6
    assert list(found["memory_mb"]) == ["script"]
