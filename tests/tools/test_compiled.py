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


def test_structs_of_the_copy_inherit_that_they_are_frozen(tmp_path: Path) -> None:
    copy(tmp_path)
    asking = (tmp_path / "paceline/trainer/asking.py").read_text(encoding="utf-8")
    assert "class Ask(Frozen, frozen=True):" in asking
    assert "(msgspec.Struct, frozen=True)" not in asking
    source = (SOURCE / "paceline/trainer/asking.py").read_text(encoding="utf-8")
    assert len(asking.splitlines()) == len(source.splitlines())


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
