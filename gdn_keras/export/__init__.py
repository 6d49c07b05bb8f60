"""Trained models as SavedModels that run without this package.

Keras's own `model.export(path, format="onnx")` and `format="litert"` write the other formats.
"""

from gdn_keras.export.saved_model import export_saved_model, is_export_of

__all__ = ["export_saved_model", "is_export_of"]
