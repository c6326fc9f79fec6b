"""What a gradient would be on the values of now: delay compensation (DC-ASGD).

::

    g + lambda * g * g * (w_now - w_then)

The gradient's first-order change on the way from the values that it was computed on to
those that it is applied to, with the diagonal of its outer product for the Hessian: no
second derivative is computed.

Pure. Source: Zheng and others 2016 (arXiv 1609.08326), equation 10.
"""

import torch


def compensated(
    gradient: torch.Tensor, now: torch.Tensor, then: torch.Tensor, factor: float
) -> torch.Tensor:
    """The gradient at ``now``, as far as that at ``then`` tells; a new tensor.

    Args:
        gradient: computed at ``then``, shape (n,).
        now: values of the block, same shape and dtype.
        then: its values when they were pulled, likewise.
        factor: the paper's lambda; 0 leaves the gradient as it is.
    """
    return gradient + factor * gradient * gradient * (now - then)
