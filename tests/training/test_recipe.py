import dataclasses
import json

import numpy as np
import pytest

from gdn_keras.training import Recipe
from gdn_keras.training.command_line import recipe_of, recipe_parser
from gdn_keras.training.digit_detection import DigitRecipe


def test_recipes_come_back_from_json():
    recipe = Recipe(widths=[4, 6], train_scales=(1, 2), augment=[28, 56], epochs=np.int64(3))
    assert Recipe(**json.loads(json.dumps(recipe.as_dict()))) == recipe
    assert recipe.as_dict()["epochs"] == 3


def test_training_may_differ_from_use():
    recipe = Recipe(train_scales=(1, 2))
    assert (recipe.training_scales, len(recipe.scales)) == ((1, 2), 8)
    assert Recipe(scales=(1, 3)).training_scales == (1, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "defualt"}, "'mnist', 'default', 'large'.*network='defualt'"),
        ({"network": "default_size2"}, "'mnist', 'default', 'large'"),
        ({"pooling": "sum"}, "pooling='sum'"),
        ({"scale_dropout": 1.0}, "scale_dropout=1.0"),
        ({"order": 4}, "order=4"),
        ({"surround": -1}, "`surround` must be.*surround=-1"),
        ({"surround": 50}, "a share of the image such as 0.5.*surround=50"),
        ({"surround": 0.5, "readout": "average"}, "surround=0.5"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": -1}, "batch_size=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"scales": (2, 1)}, "increasing"),
        ({"train_scales": ()}, "scales"),
        ({"augment": (56, 28)}, r"two extents in increasing order.*\(56, 28\)"),
        ({"augment": 28}, "two extents"),
        ({"augment": (0, 28)}, "augment=0"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"final_learning_rate": 0.1}, "at most"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"widths": (0,)}, "widths"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**changes)


@pytest.mark.parametrize("recipe", [Recipe, DigitRecipe])
def test_fields_are_flags_and_documentation(recipe):
    parser = recipe_parser("Trains.", "runs/x", recipe, epochs=7)
    assert recipe_of(parser.parse_args([]), recipe) == recipe(epochs=7)
    flags = (
        "--seed 3 --scales 1 4 3 --widths 4 6 --learning-rate 0.1 --final-learning-rate 0.01 "
        "--mixed-precision float16"
    )
    chosen = recipe_of(parser.parse_args([*flags.split(), "--jit"]), recipe, batch_size=2)
    assert (chosen.seed, chosen.widths, chosen.batch_size, chosen.jit) == (3, (4, 6), 2, True)
    assert chosen.scales == pytest.approx((1, 2, 4)) and chosen.precision == "float16"
    assert (chosen.learning_rate, chosen.final_learning_rate) == (0.1, 0.01)
    for field in dataclasses.fields(recipe):
        assert f"\n        {field.name}: " in recipe.__doc__
