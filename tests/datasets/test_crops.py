"""Crops of annotated pictures: what is in them, and what is not to be learned."""

import numpy as np
import pytest

from gdn_keras.datasets import Crops, crop_pipeline, load_boxes
from gdn_keras.datasets.crops import IGNORED
from tests.datasets.boxed_folders import write_voc

pytest.importorskip("PIL")

BOX = ("cell", 30, 40, 50, 56)
LARGE = ("cell", 80, 20, 150, 90)


@pytest.fixture
def images(tmp_path):
    rows = {"a": [BOX, LARGE], "b": [BOX], "empty": []}
    return load_boxes(write_voc(tmp_path, (160, 120), **rows)).images


def test_boxes_are_where_the_objects_are(images):
    crops = Crops(images, 48, channels=1, turns=True, light=False, insides=0.0)
    seen = set()
    for index in range(60):
        pixels, boxes, labels = crops.draw(0, index)
        shown = np.zeros((48, 48), "bool")
        for x1, y1, x2, y2 in boxes.astype(int):
            shown[y1:y2, x1:x2] = True
        np.testing.assert_array_equal(pixels[..., 0] > 100, shown)
        seen |= {*labels.tolist()}
    assert seen == {0, IGNORED}  # some are cut by the edge


def test_other_sizes_are_ignored(images):
    crops = Crops(images, 96, sizes=(15.0, 40.0), insides=0.0)
    for index in range(40):
        _, boxes, labels = crops.draw(1, index)
        sides = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, initial=0)
        assert (labels[(sides < 15) | (sides > 40)] == IGNORED).all()
    with pytest.raises(ValueError, match="must have boxes of `sizes`"):
        Crops(images, 96, sizes=(200.0, 300.0))


def test_objects_are_never_enlarged_but_to_be_ignored(images):
    enlarged = [Crops(images, 64, insides=1.0, light=False).draw(2, k) for k in range(40)]
    sides = [
        (boxes[:, 2:] - boxes[:, :2]).max() for _, boxes, labels in enlarged if IGNORED in labels
    ]
    assert max(sides) > 60 and all(crop.pixels.shape == (64, 64, 3) for crop in enlarged)
    # Pictures without boxes have none to enlarge.
    assert all((crop.labels == IGNORED).all() for crop in enlarged)


def test_pictures_that_are_smaller_than_a_crop_are_continued(images):
    pixels, boxes, _ = Crops(images[1:2], 256, insides=0.0, light=False).draw(0, 0)
    assert pixels.shape == (256, 256, 3) and len(boxes) == 1
    assert (boxes[0, 2:] - boxes[0, :2]).tolist() == [20, 16]


def test_resolution_multiplies_everything(images):
    _, boxes, _ = Crops(images[1:2], 100, 0.5, mirror=False, insides=0.0).draw(0, 0)
    assert (boxes[0, 2:] - boxes[0, :2]).tolist() == [10, 8]


def test_batches_depend_on_seed_and_number_alone(images):
    def batches(first, count, seed=3):
        crops = Crops(images, 32, channels=1)
        pipeline = crop_pipeline(crops, batch_size=2, seed=seed, first=first)
        return [(x.numpy(), y["boxes"].numpy()) for x, y in pipeline.take(count)]

    whole, later, other = batches(0, 3), batches(2, 1), batches(2, 1, seed=4)
    for one, two in zip(whole[2], later[0], strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(other[0][0], later[0][0])
    assert whole[0][0].shape == (2, 32, 32, 1) and whole[0][1].shape == (2, 8, 4)


@pytest.mark.parametrize(
    "wrong", [{"side": 0}, {"side": 2.5}, {"resolution": -1}, {"channels": 2}, {"insides": "x"}]
)
def test_wrong_crops_are_named(images, wrong):
    [name] = wrong
    with pytest.raises(ValueError, match=f"`{name}` must"):
        Crops(images, **{"side": 48, **wrong})
