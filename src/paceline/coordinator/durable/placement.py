"""How parts lie in slots and on servers; decided once per run and journalled.

Pure.
"""

from collections.abc import Mapping, Sequence

import msgspec

from paceline.config import Combine, JobConfig
from paceline.coordinator.durable.durable import Durable
from paceline.messages.shared import PartPlan, PartSpec
from paceline.params.blocks import cut_blocks, dtype_bytes, num_row_slots, place_slots

ROW_SLOT_BYTES = 1 << 20  # what a row slot counts for before anything is known of it


def plan_part(spec: PartSpec, state: Durable, config: JobConfig) -> PartPlan:
    """Cut a part into blocks, number its slots and place them on the job's servers."""
    first_slot = sum(
        len(record.plan.blocks) + record.plan.num_row_slots
        for record in state.parts.values()
    )
    blocks = cut_blocks(spec.parameters, config.servers, first_slot=first_slot)
    plan = PartPlan(
        spec=spec,
        blocks=blocks,
        first_row_slot=first_slot + len(blocks),
        num_row_slots=_num_row_slots(spec, config.servers),
        placement={},
    )
    loads = dict.fromkeys(sorted(state.servers), 0)
    for record in state.parts.values():
        sizes = _slot_bytes(record.plan)
        for slot, server in record.plan.placement.items():
            loads[server] += sizes[slot]
    return _placed(plan, sorted(state.servers), loads)


def _num_row_slots(spec: PartSpec, num_servers: int) -> int:
    if not spec.tables:
        return 0
    wanted, most = num_row_slots(num_servers), None
    for table in spec.tables:
        if isinstance(table.optimizer, Combine):
            wanted = table.optimizer.blocks or wanted
            most = table.optimizer.num_rows
    return wanted if most is None else min(wanted, most)


def place_again(plans: Sequence[PartPlan], servers: Sequence[str]) -> tuple[PartPlan, ...]:
    """The same slots on other servers; where they lie already if the servers are the same.

    Blocks are never cut anew: cutting elsewhere changes the last bits of an update.
    """
    holders = {server for plan in plans for server in plan.placement.values()}
    if holders == set(servers):
        return tuple(plans)
    loads = dict.fromkeys(servers, 0)
    placed = []
    for plan in plans:
        placed.append(_placed(plan, servers, loads))
        sizes = _slot_bytes(plan)
        for slot, server in placed[-1].placement.items():
            loads[server] += sizes[slot]
    return tuple(placed)


def keep_paces(plans: Sequence[PartPlan], state: Durable) -> tuple[PartPlan, ...]:
    """Plans of an older cut, under the paces that parts have by now."""
    known = {part: record.plan.spec for part, record in state.parts.items()}
    return tuple(
        msgspec.structs.replace(plan, spec=known[plan.spec.part])
        if plan.spec.part in known
        and known[plan.spec.part].parameters == plan.spec.parameters
        else plan
        for plan in plans
    )


def _placed(plan: PartPlan, servers: Sequence[str], loads: Mapping[str, int]) -> PartPlan:
    placement = place_slots(_slot_bytes(plan), servers, loads)
    return msgspec.structs.replace(plan, placement=placement)


def _slot_bytes(plan: PartPlan) -> dict[int, int]:
    dense = {
        block.slot: (block.stop - block.start)
        * dtype_bytes(plan.spec.parameters[block.parameter].dtype)
        for block in plan.blocks
    }
    rows = range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)
    return dense | dict.fromkeys(rows, ROW_SLOT_BYTES)
