"""What is compiled decides the same: two ways to run one source."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypyc", reason="mypyc is not installed (extra dev)")

from tools.compiled import REFUSED, ROOT, TARGET, copy, modules, refuse

SOURCE = ROOT / "src"
FORECASTS = """
import sys
import msgspec
from paceline.config import parse_pace
from paceline.simulate.forecast import agenda
from paceline.simulate.forecast.job import forecast
from paceline.simulate.forecast.models import Deaths, Lognormal, Pauses
from paceline.simulate.forecast.plan import Plan

print(agenda.__file__.endswith(".py"))
disturbed = {"deaths": Deaths(60.0, 0.5), "pauses": Pauses(0.05, 2.0), "cut_every_s": 1.0}
for pace in sys.argv[1:]:
    for extra in ({}, disturbed):
        plan = Plan(
            trainers=6,
            servers=2,
            steps=24,
            pace=parse_pace(pace),
            compute=Lognormal(0.1, 0.5),
            parameter_bytes=10**6,
            **extra,
        )
        print(msgspec.json.encode(forecast(plan)).decode())
"""
PACES = ("sync", "sync:backup=1", "ssp:3", "async", "async:push=4,pull=8", "diloco:every=3")


def forecasts(source: Path) -> list[str]:
    """Whether it is the source itself, and what forecasts of many paces come to."""
    command = [sys.executable, "-c", FORECASTS, *PACES]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return found.stdout.splitlines()


@pytest.mark.parametrize("module", modules())
def test_what_is_compiled_dispatches_by_no_type_and_is_nobodys_base(module: str) -> None:
    tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"singledispatch", "ABC"}


def test_structs_of_the_copy_are_plain_classes_with_the_same_fields(tmp_path: Path) -> None:
    copy(tmp_path)
    asked = """
import msgspec
from paceline.ids import TaskKey
from paceline.messages import Lease, Tick, Ticked, Wait, Waiting
from paceline.native import decoded, encoded, replace
WAIT = Wait("round", "x")
assert not issubclass(Ticked, msgspec.Struct)
assert issubclass(Ticked, type(Waiting(wait=WAIT)).__base__)
lease = Lease(7, TaskKey(0, 1, 2), 3)
assert lease == Lease(token=7, key=TaskKey(0, 1, 2), first=3) != replace(lease, first=4)
assert lease.rounds == {} and lease.rounds is not Lease(7, lease.key, 3).rounds
data = msgspec.msgpack.encode([lease], enc_hook=encoded)
assert msgspec.msgpack.decode(data, type=list[Lease], dec_hook=decoded) == [lease]
print(Ticked(lease=lease).lease.key, hash(Waiting(wait=WAIT)) == hash(Waiting(wait=WAIT)))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", asked]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert found.stdout == "s0/e1/t2 True\n", found.stderr


@pytest.mark.parametrize("module", REFUSED)
def test_nothing_that_closes_an_act_runs_what_is_compiled(
    module: str, tmp_path: Path
) -> None:
    copy(tmp_path)
    refuse(tmp_path)
    name = module.removesuffix(".py").replace("/", ".")
    command = [sys.executable, "-c", f"import {name}"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert "ImportError: build/compiled is for forecasts" in found.stderr


@pytest.mark.slow
def test_what_is_compiled_comes_to_the_same_forecasts(tmp_path: Path) -> None:
    if not TARGET.exists():
        pytest.skip("nothing is compiled: make compiled")
    copy(tmp_path)
    for module in modules():
        if (tmp_path / module).read_bytes() != (TARGET / module).read_bytes():
            pytest.skip(f"{module} has changed since: make compiled")
    is_source, *expected = forecasts(SOURCE)
    is_copy, *found = forecasts(TARGET)
    assert (is_source, is_copy) == ("True", "False")
    assert found == expected
