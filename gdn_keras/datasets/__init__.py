"""Data sets by name, the MNIST Large Scale transform, tf.data pipelines.

For `tfds.load("mnist_large_scale/size2")` import `gdn_keras.datasets.mnist_large_scale` first.
"""

from gdn_keras.datasets.augmentation import RandomAffine, RandomBlur, RandomFrame, RandomLight
from gdn_keras.datasets.boxes import (
    BoxedImage,
    BoxedImages,
    load_boxes,
    read_boxed_image,
    read_boxed_images,
    split_boxes,
)
from gdn_keras.datasets.crops import Crops, crop_pipeline
from gdn_keras.datasets.digits import (
    Digits,
    load_embedded_digits,
    load_mnist_directory,
    load_mnist_tfds,
)
from gdn_keras.datasets.folder import picture_heights, suggest_scales
from gdn_keras.datasets.frames import light_on_dark, place_in_frame, place_object
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    concatenate,
    dataset_names,
    load_dataset,
    register_dataset,
)
from gdn_keras.datasets.image_files import read_picture
from gdn_keras.datasets.large_scale import load_large_scale, load_official_large_scale
from gdn_keras.datasets.mnist import large_scale_data, original_data
from gdn_keras.datasets.pipelines import (
    epoch_order,
    evaluation_pipeline,
    steps_per_epoch,
    training_pipeline,
)
from gdn_keras.datasets.scenes import Scenes, digit_scenes, scene_pipeline, scene_set
from gdn_keras.datasets.transform import (
    TEST_SIZES,
    TRAIN_SIZES,
    resampling_matrix,
    rescale_images,
    rescale_photographs,
)

__all__ = [
    "TEST_SIZES", "TRAIN_SIZES", "BoxedImage", "BoxedImages", "Crops", "Digits", "ImageData",
    "LabelledImages", "RandomAffine", "RandomBlur", "RandomFrame", "RandomLight", "Scenes",
    "concatenate", "crop_pipeline", "dataset_names", "digit_scenes", "epoch_order",
    "evaluation_pipeline", "large_scale_data", "light_on_dark", "load_boxes", "load_dataset",
    "load_embedded_digits", "load_large_scale", "load_mnist_directory", "load_mnist_tfds",
    "load_official_large_scale", "original_data", "picture_heights", "place_in_frame",
    "place_object", "read_boxed_image", "read_boxed_images", "read_picture", "register_dataset",
    "resampling_matrix", "rescale_images", "rescale_photographs", "scene_pipeline", "scene_set",
    "split_boxes", "steps_per_epoch", "suggest_scales", "training_pipeline",
]  # fmt: skip
