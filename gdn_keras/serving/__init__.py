"""Trained models on image files, one by one or many: pictures, detectors and classifiers."""

from gdn_keras.serving.loading import Predictor, load_predictor
from gdn_keras.serving.pictures import place, read_picture, read_scene

__all__ = ["Predictor", "load_predictor", "place", "read_picture", "read_scene"]
