"""One run: recipe, data, folder, resume and report."""

from gdn_keras.training.data import large_scale_loader
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.job import Job, prepare, run
from gdn_keras.training.report import write_report
from gdn_keras.training.settings import Settings

__all__ = [
    "Job",
    "Settings",
    "TrainingStopped",
    "large_scale_loader",
    "prepare",
    "run",
    "write_report",
]
