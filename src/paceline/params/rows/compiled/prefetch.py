"""A hint to the processor: this row of an array is needed soon.

Rows of a batch lie anywhere in tables far larger than its caches. A loop that waits for
memory at each row spends most of its time so; told of a row `AHEAD` turns before, memory is
read while other rows are worked on. A hint changes no number, and one about memory that is
not there does nothing: no index is checked.

Pure. To be called in compiled loops only. numba notices no change of this file: whoever
makes one removes what is kept of `kernels`.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD: Final = 32  # rows: memory takes as long to answer as so many take to be worked on

_READ, _KEEP, _DATA = 0, 3, 1  # for reading, in all caches, no instructions


def _prefetch(_typing: Any, array: Any, row: Any) -> Any:  # noqa: ANN401  (numba's door)
    """Fetch both ends of a row of ``array``, two dimensions; ``row`` is int64.

    That is all of a row of 16 float32, which need not begin where a cache line does; of a
    longer one the processor sees for itself how it goes on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (numba's door)
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        width = builder.extract_value(made.shape, 1)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        hint = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0i8")
        how = [number(_READ), number(_KEEP), number(_DATA)]
        first = width.type(0)
        for column in (first, builder.sub(width, width.type(1))):
            place = cgutils.get_item_pointer(
                context, builder, kind, made, [arguments[1], column], wraparound=False
            )
            builder.call(hint, [builder.bitcast(place, byte), *how])
        return context.get_dummy_value()

    del row
    return types.void(array, types.int64), generate


prefetch = cast("Callable[[Any, int | np.signedinteger[Any]], None]", intrinsic(_prefetch))
