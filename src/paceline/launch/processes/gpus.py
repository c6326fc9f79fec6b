"""Which GPU a rank of a trainer sees first: one of its own, while there are enough.

::

    four GPUs                     rank 0 sees 0,1,2,3   rank 1 sees 1,2,3,0 ...
    two trainers of two ranks     trainer-0: 0, 1       trainer-1: 2, 3
    more ranks than GPUs          they begin again: rank 4 sees 0,1,2,3

So ``"cuda"`` is another GPU in each rank of an unchanged script. A rank still sees all of
them: NCCL finds its ways between GPUs only among those that a process sees.

Pure.
"""

VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA reads it once, when a process first uses a GPU


def turn_of(role: str, index: int, size: int) -> int:
    """The how manieth of all ranks of a job the ``index``-th of a trainer is."""
    return int(role.rsplit("-", 1)[1]) * size + index


def own_gpu_first(visible: str | None, num_gpus: int, turn: int) -> str | None:
    """What `VISIBLE` has to be for a rank's own GPU to be the first of all.

    ``visible`` is what it is (None: not set), ``num_gpus`` how many torch finds with it.

    Returns:
        All of them, in turn; None where there is nothing to choose from.
    """
    names = [str(number) for number in range(num_gpus)]
    if visible is not None:
        names = [name.strip() for name in visible.split(",")][:num_gpus]
    if len(names) < 2:
        return None
    first = turn % len(names)
    return ",".join(names[first:] + names[:first])
