"""How a new part lies in slots and on servers; decided once and journalled.

Pure.
"""

import math

from paceline.config import JobConfig
from paceline.coordinator.durable import Durable
from paceline.messages import PartPlan, PartSpec
from paceline.params.blocks import cut_blocks, dtype_bytes
from paceline.params.partition import num_row_slots, place_slots

ROW_SLOT_BYTES = 1 << 20  # what a row slot counts for before anything is known of it


def plan_part(spec: PartSpec, state: Durable, config: JobConfig) -> PartPlan:
    """Cut a part into blocks, number its slots and place them on the job's servers."""
    first_slot = sum(
        len(record.plan.blocks) + record.plan.num_row_slots
        for record in state.parts.values()
    )
    blocks = cut_blocks(spec.parameters, config.servers, first_slot=first_slot)
    first_row_slot = first_slot + len(blocks)
    row_slots = num_row_slots(config.servers) if spec.tables else 0
    sizes = {
        block.slot: (block.stop - block.start)
        * dtype_bytes(spec.parameters[block.parameter].dtype)
        for block in blocks
    }
    sizes |= {first_row_slot + i: ROW_SLOT_BYTES for i in range(row_slots)}
    loads = dict.fromkeys(sorted(state.servers), 0)
    for record in state.parts.values():
        for block in record.plan.blocks:
            shape = record.plan.spec.parameters[block.parameter].shape
            assert math.prod(shape) >= block.stop - block.start
            loads[record.plan.placement[block.slot]] += block.stop - block.start
    return PartPlan(
        spec=spec,
        blocks=blocks,
        first_row_slot=first_row_slot,
        num_row_slots=row_slots,
        placement=place_slots(sizes, sorted(state.servers), loads),
    )
