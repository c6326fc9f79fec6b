"""The codec of a name, as a pace says it.

Pure.
"""

from collections.abc import Mapping

from paceline.codec_names import top_share
from paceline.messages.shared import PartPlan
from paceline.params.codecs.codec import Codec
from paceline.params.codecs.halves import BF16, FP16
from paceline.params.codecs.int4 import Int4
from paceline.params.codecs.int8 import Int8
from paceline.params.codecs.top import Top

_ROUNDING: Mapping[str, Codec] = {
    "fp16": FP16,
    "bf16": BF16,
    "int8": Int8(),
    "int4": Int4(),
}


def codec_of(plan: PartPlan) -> Codec | None:
    """The codec of a part's gradients; None: they travel as they are."""
    name = plan.spec.pace.codec
    if name is None:
        return None
    share = top_share(name)
    return Top(share) if share is not None else _ROUNDING[name]


def value_codec(codec: Codec | None) -> Codec | None:
    """The codec of a part's values, given that of its gradients; None: as they are."""
    return codec if codec is not None and codec.codes_values else None


def codes_blocks_of(dtype: str) -> bool:
    """Whether dense blocks of a dtype, named as torch does, are coded at all."""
    return dtype == "float32"
