import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from gdn_keras.training import Settings


def test_settings_come_back_from_json():
    settings = Settings(widths=[4, 6], train_sizes=[1, 2], train_scales=(1, 2))
    assert Settings(**json.loads(json.dumps(settings.as_dict()))) == settings


def test_settings_are_plain_data_in_order():
    settings = Settings(
        data="mnist", data_dir=Path("digits"), epochs=np.int64(3), test_sizes=(2, 1, 4)
    )
    assert settings.as_dict()["data_dir"] == "digits"
    assert settings.as_dict()["epochs"] == 3
    assert settings.test_sizes == (1, 2, 4)


def test_training_may_differ_from_use():
    settings = Settings(train_frame=56, train_scales=(1, 2))
    assert (settings.training_frame, settings.frame) == (56, 112)
    assert (settings.training_scales, len(settings.scales)) == ((1, 2), 8)
    plain = Settings(frame=64, scales=(1, 3))
    assert (plain.training_frame, plain.training_scales) == (64, (1, 3))


def test_single_channel_sits_at_the_training_size():
    settings = Settings(train_sizes=(4,), train_scales=(1, 2), seed=3)
    single = settings.single_channel()
    assert single.scales == single.training_scales == (4,)
    assert dataclasses.replace(single, scales=settings.scales, train_scales=(1, 2)) == settings
    with pytest.raises(ValueError, match="one training size"):
        Settings(train_sizes=(1, 2)).single_channel()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "defualt"}, "'mnist', 'default', 'large'.*network='defualt'"),
        ({"pooling": "sum"}, "pooling='sum'"),
        ({"digits": 0}, "digits=0"),
        ({"test_digits": 0}, "test_digits=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": -1}, "batch_size=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"frame": 2}, "frame=2"),
        ({"train_sizes": (16,)}, r"the paper trains on 1, 2, 4.*\(16.0,\)"),
        ({"train_sizes": ()}, "train_sizes"),
        ({"test_sizes": (1, 1)}, "test_sizes"),
        ({"scales": (2, 1)}, "increasing"),
        ({"train_scales": ()}, "scales"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"final_learning_rate": 0.1}, "at most"),
        ({"data": "mnist"}, "data_dir"),
        ({"data": "official", "data_dir": "x", "train_sizes": (3,)}, "1, 2, 4 only"),
        ({"data": "official", "data_dir": "x", "train_frame": 56}, "112 pixels"),
        ({"images": "mnist"}, "28x28"),
        ({"images": "mnist", "frame": 28}, r"size 1 only.*train_sizes=\(2.0,\)"),
        ({"network": "default_single"}, "'mnist', 'default', 'large'"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Settings(**changes)
