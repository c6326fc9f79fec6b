"""Dense numbers of a part: gradients out, values in.

::

    part_tensors         what uploads, pushes and pulls of one part carry
    gradients            what a window's gradients come to
    payload              what a push holds until servers have acknowledged it
    local_steps          the trainer's own steps, and how far they moved
    repacing             the same numbers under another pace
    backward_overlap     gradients sent while backward still runs
    sparse_weights       ``nn.Embedding(sparse=True)``
    shared_memory_pulls  values as they are: read where a server of this host keeps them
"""

from paceline.trainer.tensors.backward_overlap import why_not_early
from paceline.trainer.tensors.gradients import GatherChoice, Gradients
from paceline.trainer.tensors.local_steps import Deltas
from paceline.trainer.tensors.part_tensors import PartTensors, TableManner
from paceline.trainer.tensors.payload import hyper_of
from paceline.trainer.tensors.repacing import has_lost, take_pace
from paceline.trainer.tensors.sparse_weights import coalesced
