"""What, where, how large: a detector that is trained at one size and finds objects at others."""

from gdn_keras.detection.average_precision import AveragePrecision, average_precision
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes
from gdn_keras.detection.evaluation import SizePrecision, evaluate_detector
from gdn_keras.detection.export import export_detector
from gdn_keras.detection.heat_maps import draw_heat_maps, heat_maps
from gdn_keras.detection.pictures import light_on_dark, place_in_frame

__all__ = [
    "AveragePrecision",
    "Detector",
    "SizePrecision",
    "average_precision",
    "draw_boxes",
    "draw_heat_maps",
    "evaluate_detector",
    "export_detector",
    "heat_maps",
    "light_on_dark",
    "place_in_frame",
]
