import dataclasses

import numpy as np
import pytest

from gdn_keras.datasets import load_embedded_digits, rescale_images
from gdn_keras.training.data import concatenate, large_scale_loader, load_data


def test_images_are_what_the_settings_ask_for(tiny):
    data = load_data(dataclasses.replace(tiny, train_frame=24, train_sizes=(1, 2)))
    assert data.train.images.shape == (400, 24, 24, 1)
    assert data.validation.images.shape == (400, 24, 24, 1)
    digits = load_embedded_digits()
    np.testing.assert_array_equal(data.train.labels, np.tile(digits.y_train[:200], 2))
    for index, size in ((7, 1), (207, 2)):
        expected = rescale_images(digits.x_train[7:8], size, (24, 24))
        found = data.train.images[np.array([index])][..., 0]
        np.testing.assert_allclose(found, expected, atol=1e-3)
    images, labels = data.test(2.0)
    assert images.shape == (30, 32, 32, 1)
    np.testing.assert_array_equal(labels, digits.y_test[:30])


def test_concatenation_reads_like_one_array(tiny):
    load = large_scale_loader(count=5, frame=28)
    parts = [load(1), load(2), load(0.5)]
    whole = np.concatenate([part.images for part in parts])
    both = concatenate(parts)
    assert len(both.images) == 15 and both.images.dtype == whole.dtype
    for index in (np.array([14, 0, 5, 4, 9, 10, 5]), slice(3, 12)):
        np.testing.assert_array_equal(both.images[index], whole[index])


def test_original_digits(tiny):
    settings = dataclasses.replace(tiny, images="mnist", frame=28, test_sizes=(1,), digits=30)
    data = load_data(settings)
    assert data.train.images.shape == (30, 28, 28, 1)
    assert (data.train.images.min(), data.train.images.max()) == (0, 1)
    assert data.test(1.0).images.shape == (30, 28, 28, 1)


def test_more_digits_than_there_are(tiny):
    with pytest.raises(ValueError, match=r"between 1 and 3600.*5000"):
        load_data(dataclasses.replace(tiny, digits=5000))
    with pytest.raises(ValueError, match=r"between 1 and 1000.*1001"):
        load_data(dataclasses.replace(tiny, test_digits=1001))


def test_missing_files(tiny, tmp_path):
    for data in ("mnist", "official"):
        settings = dataclasses.replace(
            tiny, data=data, data_dir=str(tmp_path), frame=112, test_sizes=(1,)
        )
        with pytest.raises(FileNotFoundError, match=r"not found|was found"):
            load_data(settings)
