"""Trained networks as SavedModel, ONNX and LiteRT files that run without this package.

All three hold one frozen graph: batch normalisation is folded into kernels that are composed once,
and everything else that does not depend on the images is a constant as well. TensorFlow is imported
when it is needed.
"""

from gdn_keras.export.litert import export_litert
from gdn_keras.export.onnx import export_onnx
from gdn_keras.export.saved_model import export_saved_model, is_export_of

__all__ = ["export_litert", "export_onnx", "export_saved_model", "is_export_of"]
