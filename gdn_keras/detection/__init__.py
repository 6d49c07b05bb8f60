"""What, where, how large: a detector that is trained at one size and finds objects at others."""

from gdn_keras.detection.average_precision import AveragePrecision, average_precision
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes
from gdn_keras.detection.heat_maps import heat_maps
from gdn_keras.detection.size_precision import SizePrecision, evaluate_detector
from gdn_keras.detection.tiles import predict_tiled

__all__ = [
    "AveragePrecision",
    "Detector",
    "SizePrecision",
    "average_precision",
    "draw_boxes",
    "evaluate_detector",
    "heat_maps",
    "predict_tiled",
]
