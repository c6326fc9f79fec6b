"""Examples run as those of the cluster do: several trainers in one process."""

from tests.cluster.conftest import run

__all__ = ["run"]
