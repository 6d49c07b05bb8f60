import dataclasses

import numpy as np

from gdn_keras.datasets import LabelledImages
from gdn_keras.training.classification_task import (
    describe_data,
    image_shape,
    images_at,
    sizes_of,
)
from tests.training.conftest import tiny_data


def test_a_run_knows_its_data_again(data):
    known = describe_data(data)
    assert known == describe_data(tiny_data())
    assert known["data"] == "mnist_large_scale" and known["training_images"] == 200
    assert known["train_sizes"] == [1.0] and known["test_images"] == 30
    other = np.array(data.train.images)
    other[0, 5, 5] += 5
    changed = dataclasses.replace(data, train=LabelledImages(other, data.train.labels))
    names = {name for name, value in describe_data(changed).items() if value != known[name]}
    assert names == {"training_checksum"}


def test_frames_of_test_images_may_be_larger():
    data = tiny_data(train_frame=24)
    assert data.train.images.shape[1:] == (24, 24, 1)
    assert image_shape(data) == (32, 32, 1)


def test_data_without_sizes_are_validated(data):
    plain = dataclasses.replace(data, test_sizes=())
    assert sizes_of(plain) == (None,)
    assert images_at(plain, None) is data.validation
    assert sizes_of(data) == (1.0, 2.0) and len(images_at(data, 2.0).labels) == 30
