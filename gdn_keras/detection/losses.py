"""How far a detector is from its targets."""

from typing import Any

from keras import ops


def heat_loss(targets: Any, logits: Any) -> Any:
    """Binary cross-entropy times max(|target - p|^2, target), summed.

    Where there is nothing, the focus is on what is wrong. On objects all of the heat counts, since
    position and size are read off its shape; what perfect predictions cost there is taken off.

    Args:
        targets: Heat in [0, 1].
        logits: Of the same shape; p is their sigmoid.

    Reference: Li et al., Generalized Focal Loss (NeurIPS 2020), "quality focal loss".
    """
    entropy = ops.maximum(logits, 0) - logits * targets + ops.log1p(ops.exp(-ops.abs(logits)))
    focus = ops.maximum((targets - ops.sigmoid(logits)) ** 2, targets)
    return ops.sum(entropy * focus) - ops.sum(targets * _entropy(targets))


def _entropy(p: Any) -> Any:
    return -sum(share * ops.log(ops.maximum(share, 1e-30)) for share in (p, 1 - p))


def box_loss(targets: Any, predictions: Any, heat: Any) -> Any:
    """Mean absolute error of boxes, each point weighted by its heat.

    A mean, so that boxes weigh as much beside the heat however many points and channels there are.

    Args:
        targets: `[batch, points, 4]`, from `box_targets`.
        predictions: Of the same shape.
        heat: `[batch, points]`, of the object whose box it is.
    """
    errors = ops.mean(ops.abs(targets - predictions), axis=-1)
    return ops.sum(heat * errors) / ops.maximum(ops.sum(heat), 1.0)
