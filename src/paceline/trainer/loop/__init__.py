"""The loop over a stage: leases in, batches out.

::

    stages             a call of the user's as a stage of the job; `Session.batches`
    loop               the loop itself, and what ends with a batch: steps of several tables
    lookahead          batches taken ahead of their steps
    loader_words       words of a DataLoader, and what to write instead
    script_changes     values the script changed reach the servers, or are refused
"""

from paceline.trainer.loop.loader_words import check_words
from paceline.trainer.loop.lookahead import check_lookahead, check_step
from paceline.trainer.loop.loop import (
    TaskReader,
    check_steps,
    deliver,
    has_batch,
    leaving_anyhow,
    step_atomic,
    step_whole,
)
from paceline.trainer.loop.script_changes import (
    Changes,
    check_models,
    check_process,
    process_rests,
    to_be_set,
)
from paceline.trainer.loop.stages import Batches, Cutting, Stage, Stages, run_stage
