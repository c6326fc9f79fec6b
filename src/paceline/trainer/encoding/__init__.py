"""What travels as bytes: numbers, gradients of a codec, states of the user's objects.

::

    tensor_bytes   tensors as memory, whatever their dtype
    gpu_staging    numbers of a GPU on their way: page-locked memory, a stream beside
    compression    gradients of a part into a codec, and what the codec leaves out
    state_codec    what ``state_dict`` returns, as bytes that run nothing
"""

from paceline.trainer.encoding.compression import GradientCoding
from paceline.trainer.encoding.gpu_staging import HostGradients
from paceline.trainer.encoding.state_codec import decode_state, encode_state
from paceline.trainer.encoding.tensor_bytes import (
    Packed,
    PartMemory,
    Stretch,
    all_finite,
    are_plain,
    byte_array,
    cut,
    on_cpu,
    packed,
    plain,
)
