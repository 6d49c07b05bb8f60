"""Training recipe, evaluation over sizes, pictures and reports."""

from gdn_keras.experiments.covariance import (
    CovarianceErrors,
    InvarianceErrors,
    blob_images,
    covariance_error,
    invariance_error,
)
from gdn_keras.experiments.data import large_scale_loader
from gdn_keras.experiments.evaluation import SizeResult, accuracy_by_size, evaluate_by_size
from gdn_keras.experiments.job import Job, prepare, run
from gdn_keras.experiments.plots import (
    draw_confusion,
    draw_generalization,
    draw_receptive_fields,
    draw_selection,
)
from gdn_keras.experiments.receptive_fields import first_layer_fields, second_layer_fields
from gdn_keras.experiments.report import write_report
from gdn_keras.experiments.selection import (
    effective_training_scales,
    scale_selection,
    scale_selection_histogram,
    selection_slope,
)
from gdn_keras.experiments.settings import Settings
from gdn_keras.experiments.training import TrainingStopped

__all__ = [
    "CovarianceErrors",
    "InvarianceErrors",
    "Job",
    "Settings",
    "SizeResult",
    "TrainingStopped",
    "accuracy_by_size",
    "blob_images",
    "covariance_error",
    "draw_confusion",
    "draw_generalization",
    "draw_receptive_fields",
    "draw_selection",
    "effective_training_scales",
    "evaluate_by_size",
    "first_layer_fields",
    "invariance_error",
    "large_scale_loader",
    "prepare",
    "run",
    "scale_selection",
    "scale_selection_histogram",
    "second_layer_fields",
    "selection_slope",
    "write_report",
]
