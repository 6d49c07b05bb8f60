import numpy as np
import pytest
import stir_mnist


@pytest.mark.parametrize(
    ("scenario", "low", "high"), [(1, 0.71, 2.83), (2, 1, 4), (3, 1.41, 5.66), (4, 0.71, 5.66)]
)
def test_channels_in_training(scenario, low, high):
    channels = stir_mnist.channels(stir_mnist.SCENARIOS[scenario])
    assert (channels[0], channels[-1]) == pytest.approx((low, high), rel=1e-2)
    np.testing.assert_allclose(np.divide(channels[1:], channels[:-1]), 2**0.5)


def test_as_many_images_are_shown_in_every_scenario():
    for scenario, epochs in ((1, 6), (2, 6), (3, 6), (4, 2)):
        flags = ["--scenario", str(scenario), "--digits", "1"]
        task = stir_mnist.tasks_of(stir_mnist.parser().parse_args(flags))[""]
        recipe, data = task.recipe, task.data
        assert recipe.epochs == epochs and recipe.readout == "anywhere"
        assert recipe.augment is None and len(data.train.labels) == 10 * len(data.train_sizes)


def test_training_in_other_frames():
    """Digits lie anywhere, so none may be cut off by a smaller frame about the centre."""
    for extra, frame in (([], 48), (["--train-frame", "40"], 40)):
        flags = ["--scenario", "1", "--digits", "1", "--augment", *extra]
        task = stir_mnist.tasks_of(stir_mnist.parser().parse_args(flags))[""]
        recipe, data = task.recipe, task.data
        assert recipe.augment == (17, frame) and data.train.images.shape[1:] == (frame, frame, 1)


def test_means_over_seen_and_unseen_sizes():
    accuracies = {17: 0.5, 33: 0.9, 34: 0.8, 64: 0.7}
    results = {
        "settings": {"train_sizes": [33.0, 34.0]},
        "parameters": {"trainable": 7},
        "sizes": [{"size": float(s), "accuracy": a} for s, a in accuracies.items()],
    }
    summary = stir_mnist.summarize(results)
    assert summary["mean"] == pytest.approx({"seen": 0.85, "unseen": 0.6, "all": 0.725})
    assert summary["worst"] == {"seen": 0.8, "unseen": 0.5, "all": 0.5}
    assert summary["accuracy"] == accuracies
