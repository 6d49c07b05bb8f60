import keras
import numpy as np
import pytest

from gdn_keras.analysis import accuracy_by_size, evaluate_by_size
from gdn_keras.datasets import ImageData, LabelledImages, load_dataset
from gdn_keras.models import gaussian_derivative_network


class Brightness(keras.layers.Layer):
    """Scores of three classes: dark, middle, bright."""

    def call(self, images):
        mean = keras.ops.mean(images, axis=(1, 2, 3))
        return keras.ops.stack([-mean, 0.5 - keras.ops.abs(mean), mean], axis=1)


def brightness_classifier():
    inputs = keras.Input((4, 4, 1))
    return keras.Model(inputs, Brightness()(inputs))


def load(size):
    """Six images; the size moves the last towards another class than its label."""
    values = np.array([-1, -1, 0, 0, 1, 2 - size], "float16")
    labels = np.array([0, 0, 1, 1, 2, 2], "uint8")
    return np.broadcast_to(values[:, None, None, None], (6, 4, 4, 1)), labels


def test_accuracy_and_confusion_of_any_classifier():
    model, seen = brightness_classifier(), []
    results = evaluate_by_size(model, load, sizes=(1, 3), batch_size=4, report=seen.append)
    assert seen == results
    assert [r.size for r in results] == [1, 3] and results[0].images == 6
    assert [r.accuracy for r in results] == [1.0, 5 / 6]
    np.testing.assert_array_equal(results[0].confusion, np.diag([2, 2, 2]))
    np.testing.assert_array_equal(results[1].confusion, [[2, 0, 0], [0, 2, 0], [1, 0, 1]])
    assert results[0].selected is None
    assert accuracy_by_size(model, load, sizes=(1, 3)) == {1: 1.0, 3: 5 / 6}


def test_scores_and_selected_scales_are_those_of_the_network():
    model = gaussian_derivative_network((40, 40, 1), widths=(4,), scales=(1, 2, 4))
    data = load_dataset("mnist_large_scale", count=20, test_count=30, test_sizes=(2,), frame=40)
    (result,) = evaluate_by_size(model, data, batch_size=7)
    images, labels = data.test(2)
    predicted = model.predict(images.astype("float32"), verbose=0).argmax(1)
    assert result.accuracy == np.mean(predicted == labels)
    assert result.selected.shape == (3,) and result.selected.sum() == 30


def test_too_few_scores_for_the_labels():
    with pytest.raises(ValueError, match="3 scores for labels up to 7"):
        accuracy_by_size(
            brightness_classifier(), lambda size: (load(size)[0], np.full(6, 7)), sizes=(1,)
        )


def test_maps_count_with_the_highest_score_at_any_position():
    inputs = keras.Input((4, 4, 3))
    maps = keras.Model(inputs, keras.layers.ReLU()(inputs))
    images = np.zeros((2, 4, 4, 3), "float32")
    images[0, 1, 2, 2] = images[1, 3, 3, 0] = 1
    (result,) = evaluate_by_size(maps, lambda size: (images, np.array([2, 1])), sizes=(1,))
    assert result.accuracy == 0.5 and result.selected is None
    np.testing.assert_array_equal(result.confusion, [[0, 0, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("kind", ["arrays", "one-hot", "shuffled tf.data", "data set"])
def test_all_kinds_of_data_give_the_same(kind):
    import tensorflow as tf

    images, labels = load(3)
    one_hot = np.eye(3, dtype="float32")[labels]
    batches = tf.data.Dataset.from_tensor_slices((images, one_hot)).shuffle(6).batch(4)
    kinds = {
        "arrays": lambda size: (images, labels),
        "one-hot": lambda size: (images, one_hot),
        "shuffled tf.data": lambda size: batches,
    }
    part = LabelledImages(np.array(images), labels)
    data = ImageData("bright", part, part, lambda size: part, (3.0,), ("a", "b", "c"))
    if kind == "data set":
        results = evaluate_by_size(brightness_classifier(), data)
    else:
        results = evaluate_by_size(brightness_classifier(), kinds[kind], sizes=(3,))
    np.testing.assert_array_equal(results[0].confusion, [[2, 0, 0], [0, 2, 0], [1, 0, 1]])


def test_a_function_needs_sizes():
    with pytest.raises(ValueError, match="`sizes` must be given"):
        accuracy_by_size(brightness_classifier(), load)


def test_no_images():
    empty = np.zeros((0, 4, 4, 1)), np.zeros(0, int)
    with pytest.raises(ValueError, match="at least one image"):
        accuracy_by_size(brightness_classifier(), lambda size: empty, sizes=(1,))
