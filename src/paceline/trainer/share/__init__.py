"""A model becomes a part of the job.

::

    sharing             which part holds what
    description         model and optimizer in words that all roles share
    refusals            what speaks against a call, and a part
    optimizer           what `share` returns: its step is on the servers
    second_optimizers   others that step the same parameters
    allreduce_model     a model without servers
"""

from paceline.trainer.share.allreduce_model import share_between
from paceline.trainer.share.optimizer import SharedOptimizer
from paceline.trainer.share.refusals import check_arguments
from paceline.trainer.share.sharing import Sharing
