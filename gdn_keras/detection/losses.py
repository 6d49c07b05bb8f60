"""How far a detector is from its targets."""

from typing import Any

import keras
from keras import ops


def heat_loss(targets: Any, logits: Any, counted: Any) -> Any:
    """Binary cross-entropy times max(|target - p|^2, target), summed.

    Where there is nothing, the focus is on what is wrong. On objects all of the heat counts, since
    position and size are read off its shape; what perfect predictions cost there is taken off.

    Args:
        targets: Heat in [0, 1].
        logits: `[batch, points, classes]`, as the targets; p is their sigmoid.
        counted: `[batch, points]`, 0 where there is no loss and 1 elsewhere.

    Reference: Li et al., Generalized Focal Loss (NeurIPS 2020), "quality focal loss".
    """
    entropy = ops.maximum(logits, 0) - logits * targets + ops.log1p(ops.exp(-ops.abs(logits)))
    focus = ops.maximum((targets - ops.sigmoid(logits)) ** 2, targets)
    loss = ops.sum(entropy * focus - targets * _entropy(targets), axis=-1)
    return ops.sum(loss * counted)


def _entropy(p: Any) -> Any:
    return -sum(share * ops.log(ops.maximum(share, 1e-30)) for share in (p, 1 - p))


def box_loss(targets: Any, predictions: Any, heat: Any) -> Any:
    """Absolute error of boxes, each point weighted by its heat, summed.

    Over the sum of the heat, boxes weigh as much however many points and channels there are.

    Args:
        targets: `[batch, points, 4]`, from `box_targets`.
        predictions: Of the same shape.
        heat: `[batch, points]`, of the object whose box it is.
    """
    errors = ops.mean(ops.abs(targets - predictions), axis=-1)
    return ops.sum(heat * errors)


def overlap_loss(targets: Any, predictions: Any, heat: Any, unit: Any) -> Any:
    """One minus the complete IoU of boxes, each point weighted by its heat, summed.

    Args:
        targets, predictions, heat: As in `box_loss`.
        unit: Each point's step over its `extent * sigma_0`, `[points]`.
    """
    seen, said = (_in_units(boxes, unit) for boxes in (targets, predictions))
    overlap = keras.utils.bounding_boxes.compute_ciou(seen, said, "center_xywh")
    return ops.sum(heat * (1 - overlap))


def _in_units(boxes: Any, unit: Any) -> Any:
    """Boxes as (center, width, height) in units of what their channels respond to."""
    sides = ops.exp(ops.clip(boxes[..., 2:], -4.0, 4.0))
    return ops.concatenate([boxes[..., :2] * unit[:, None], sides], axis=-1)


def sum_over_replicas(values: Any) -> Any:
    """The sum over the replicas of `tf.distribute`, without a gradient.

    Other backends need nothing of the kind: JAX's arrays are global.
    """
    replica = _replica()
    values = ops.stop_gradient(values)
    if replica is None:
        return values
    import tensorflow as tf

    return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)


def spread_over_replicas(loss: Any) -> Any:
    """A replica's part of a loss, with its own gradient and an equal share of the whole as value.

    Keras adds up the gradients of the replicas, and logs the mean of their values, weighted by
    their images, times the number of replicas.

    Args:
        loss: Whose sum over the replicas is that of the batch.
    """
    replica = _replica()
    if replica is None:
        return loss
    share = sum_over_replicas(loss) / replica.num_replicas_in_sync
    return share + (loss - ops.stop_gradient(loss))


def _replica() -> Any:
    """The context of one of several replicas, or `None`."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    return None if replica is None or replica.num_replicas_in_sync == 1 else replica
