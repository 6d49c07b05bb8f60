"""One run: recipe, data, folder, resume and report."""

from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.job import TrainingJob, prepare_training, run_training
from gdn_keras.training.recipe import Recipe
from gdn_keras.training.report import write_report

__all__ = [
    "Recipe",
    "TrainingJob",
    "TrainingStopped",
    "prepare_training",
    "run_training",
    "write_report",
]
