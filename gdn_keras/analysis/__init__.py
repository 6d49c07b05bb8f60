"""What a network does: accuracy over sizes, scale selection, covariance, receptive fields.

Any model, any images.
"""

from gdn_keras.analysis.covariance import (
    CovarianceErrors,
    InvarianceErrors,
    blob_images,
    covariance_error,
    invariance_error,
)
from gdn_keras.analysis.plots import (
    draw_confusion,
    draw_generalization,
    draw_receptive_fields,
    draw_selection,
    draw_sizes,
)
from gdn_keras.analysis.receptive_fields import first_layer_fields, second_layer_fields
from gdn_keras.analysis.sizes import (
    SizeResult,
    accuracy_by_size,
    effective_training_scales,
    evaluate_by_size,
    scale_selection,
    scale_selection_histogram,
    selection_slope,
)

__all__ = [
    "CovarianceErrors", "InvarianceErrors", "SizeResult", "accuracy_by_size", "blob_images",
    "covariance_error", "draw_confusion", "draw_generalization", "draw_receptive_fields",
    "draw_selection", "draw_sizes", "effective_training_scales", "evaluate_by_size",
    "first_layer_fields", "invariance_error", "scale_selection", "scale_selection_histogram",
    "second_layer_fields", "selection_slope",
]  # fmt: skip
