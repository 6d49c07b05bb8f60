"""One run engine: a model, data, an evaluation and a report; resume, progress and export.

Detectors are trained by `gdn_keras.training.digit_detection`.
"""

from gdn_keras.training.classification_task import Classification
from gdn_keras.training.engine import Run, run
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.recipe import Recipe, TrainingRecipe
from gdn_keras.training.task import Task

__all__ = ["Classification", "Recipe", "Run", "Task", "TrainingRecipe", "TrainingStopped", "run"]
