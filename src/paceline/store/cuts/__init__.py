"""Cuts: what they hold, which is whole, which may go.

::

    manifest        the one small file that makes a cut true
    shares          a server's file
    export_plan     which bytes make up a plain state_dict
    claims          whose a place of cuts is, and which cuts are a job's own
    retention       which may go
"""

from paceline.store.cuts.claims import (
    Claim,
    ForeignCut,
    Owner,
    claim_place,
    foreign_cuts,
    name_owner,
    newest_claim,
    owner_of,
    refuse_other_job,
    taken_over,
)
from paceline.store.cuts.export_plan import (
    DTYPES,
    FROZEN_DTYPES,
    DensePlan,
    ExportPlan,
    TablePlan,
    plan_export,
    require_distinct,
)
from paceline.store.cuts.manifest import (
    Cut,
    Manifest,
    cut_folder,
    cut_folders,
    list_cuts,
    newest_good_cut,
    read_manifest,
    verify_cut,
    write_manifest,
)
from paceline.store.cuts.retention import drop_cut, sweep, sweep_constants
from paceline.store.cuts.shares import (
    STANDING,
    TRACKED,
    RawTensor,
    file_buffers,
    read_buffers,
    read_share_bytes,
    slot_and_name,
    tensor_name,
)
