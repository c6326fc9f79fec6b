"""Dense numbers of a part: gradients out, values in.

::

    part_tensors         what every part has for its pushes and pulls
    model_tensors        a model's: parameters, embeddings, gradients
    table_tensors        a table's: what the user writes to it
    gradients            what a window's gradients come to
    payload              what a push holds until servers have acknowledged it
    local_steps          whose steps they are; the trainer's own, and how far they moved
    backward_overlap     gradients sent while backward still runs
    sparse_weights       ``nn.Embedding(sparse=True)``
    shared_memory_pulls  values as they are: read where a server of this host keeps them
"""

from paceline.trainer.tensors.backward_overlap import why_not_early
from paceline.trainer.tensors.gradients import WHOLE_STEP, GatherChoice, Gradients, Loaded
from paceline.trainer.tensors.local_steps import Deltas, PartSteps, has_lost
from paceline.trainer.tensors.model_tensors import ModelTensors
from paceline.trainer.tensors.part_tensors import PartTensors
from paceline.trainer.tensors.payload import hyper_of
from paceline.trainer.tensors.sparse_weights import coalesced
from paceline.trainer.tensors.table_tensors import TableManner, TableTensors
