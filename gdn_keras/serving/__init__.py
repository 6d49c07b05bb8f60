"""Trained models on image files, one by one or many: files in, answers out."""

from gdn_keras.serving.predictor import Picture, Predictor, load_predictor, read_pictures

__all__ = ["Picture", "Predictor", "load_predictor", "read_pictures"]
