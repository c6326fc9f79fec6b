"""Importing paceline starts nothing and loads no heavy library; its names are all there."""

import ast
import subprocess
import sys

import pytest

import paceline
from tests.architecture.house import ROOT, modules

HEAVY = ("matplotlib", "numba", "numpy", "pandas", "pyarrow", "ray", "sklearn", "torch")
LIGHT = ("paceline", "paceline.cli.main", "paceline.cli.run", "paceline.cli.status")
ROLES = (  # all of an embedded job; with rows it needs numba as well
    "paceline.coordinator.service",
    "paceline.launch.own_job",
    "paceline.server.service",
)


@pytest.mark.parametrize("name", LIGHT)
def test_importing_loads_no_heavy_library(name: str) -> None:
    assert loaded(name) == "[]"


def test_a_coordinator_loads_numpy_alone() -> None:
    assert loaded("paceline.coordinator.service") == "['numpy']"


def test_a_job_without_rows_loads_torch_alone() -> None:
    assert loaded(", ".join(ROLES)) == "['numpy', 'torch']"


def loaded(names: str) -> str:
    """The heavy libraries that importing these modules loads."""
    script = f"import sys, {names}; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return found.stdout.strip()


def test_every_public_name_is_defined_where_it_is_looked_for() -> None:
    sources = {module.name: module.tree for module in modules("src")}
    for name, origin in paceline._LAZY.items():
        assert origin in sources, f"paceline.{name}: {origin} does not exist"
        assert origin == f"paceline.{name}" or name in {
            node.name
            for node in sources[origin].body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }, f"paceline.{name}: {origin} does not define it"
    eager = set(paceline.__all__) - set(paceline._LAZY)
    assert all(hasattr(paceline, name) for name in eager)


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        paceline.conect  # type: ignore[attr-defined]  # noqa: B018  (that is the point)


def test_all_public_names_are_listed() -> None:
    assert set(dir(paceline)) == set(paceline.__all__)
