"""One trainer of several processes: rank 0 leads, the others ask it.

::

    leader, leader_calls       rank 0, and how it hears the others
    follower, follower_orders  rank 1, 2 ..., and what they are told to do
    wire                       what they say to each other
    joint_push, offers         which rank works on which batches; gradients of all as one
                               push
    shares                     which rank talks to which server
    delegated_requests         the leader's questions, carried by a rank
    collectives                dense numbers by ``torch.distributed``
    gpu_agreement              whether they go from GPU to GPU

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.trainer.group.follower import Follower
    from paceline.trainer.group.leader import Leader
    from paceline.trainer.group.wire import GroupPlace

_LAZY = {  # {name: the module that defines it}
    "Follower": "paceline.trainer.group.follower",
    "GroupPlace": "paceline.trainer.group.wire",
    "Leader": "paceline.trainer.group.leader",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
