"""How gradients and values are coded on the wire, as the pace of a part says.

::

    codec      what every codec promises
    halves     fp16, bf16: every element alone, gradients and values
    int8       gradients: 8 bits an element, with a scale for a row or a stretch
    int4       dense gradients: 4 bits an element, and what is left out comes later
    top        dense gradients: the greatest of each stretch, exact, and where they lie
    named      name -> codec

    values  float32 (n,)  --encode-->  coded  bytes, as many as n says  --decode-->  values

Only float32 is coded; the servers keep float32. How many bytes come of n elements is known
before, so that room can be kept for them. What decodes is the same on every machine.

Pure, like all of `paceline.params`.
"""

from paceline.params.codecs.codec import Codec, Float32s
from paceline.params.codecs.named import codec_of, codes_blocks_of, value_codec
