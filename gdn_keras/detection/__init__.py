"""What, where, how large: a detector that is trained at one size and finds objects at others."""

from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes, heat_maps
from gdn_keras.detection.precision import (
    AveragePrecision,
    SizePrecision,
    average_precision,
    evaluate_detector,
)
from gdn_keras.detection.targets import grid_points
from gdn_keras.detection.tiles import predict_tiled

__all__ = [
    "AveragePrecision", "Detector", "SizePrecision", "average_precision", "draw_boxes",
    "evaluate_detector", "grid_points", "heat_maps", "predict_tiled",
]  # fmt: skip
