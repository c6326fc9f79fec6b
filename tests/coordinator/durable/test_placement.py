"""Parts are spread over servers by bytes, tables of few rows too."""

from paceline.config import Async, Combine, JobConfig, Zeros
from paceline.coordinator.durable.durable import Durable, PartRecord
from paceline.coordinator.durable.placement import plan_part
from paceline.messages.shared import PartSpec, TableSpec


def test_tables_of_one_slot_each_go_to_different_servers() -> None:
    state = Durable(servers={"server-0": 1, "server-1": 2})
    config = JobConfig(run="r", servers=2)
    holders = []
    for part in range(4):
        combine = Combine(dtype="int64", shape=(3,), num_rows=1)
        table = TableSpec(f"t{part}", 3, combine, Zeros())
        plan = plan_part(PartSpec(part, (), None, (table,), Async()), state, config)
        state.parts[part] = PartRecord(plan)
        holders += plan.placement.values()
    assert sorted(holders) == ["server-0", "server-0", "server-1", "server-1"]
