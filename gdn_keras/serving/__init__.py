"""Trained models on image files, one by one or many: pictures, detectors and classifiers."""

from gdn_keras.datasets.image_files import read_picture
from gdn_keras.serving.loading import Predictor, load_predictor
from gdn_keras.serving.pictures import place, place_object, read_scene

__all__ = ["Predictor", "load_predictor", "place", "place_object", "read_picture", "read_scene"]
