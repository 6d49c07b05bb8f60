"""From a folder of annotated pictures to a detector, with a tiny network."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from gdn_keras.datasets import load_boxes
from gdn_keras.training import run
from gdn_keras.training.picture_detection import PictureDetection, PictureRecipe, planned
from gdn_keras.training.picture_precision import Answer, best_threshold, matches
from tests.datasets.boxed_folders import write_coco, write_voc, write_yolo
from tests.detection.networks import tiny_network

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("pycocotools")

ROWS = {
    f"p{k}": [("cell", 8 + k, 10, 38 + k, 34), ("atom", 60, 20 + k, 84, 44 + k)] for k in range(4)
}
RECIPE = PictureRecipe(epochs=1, steps=2, batch_size=2, validation="0.25", crop=48)


def network(recipe, scales, num_classes, channels, border):
    del recipe, scales, border
    return tiny_network(num_classes, channels, scales=(1.0, 2.0))


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("write", [write_voc, write_coco, write_yolo])
def test_a_folder_becomes_a_detector(tmp_path, write):
    folder = write(tmp_path / "pictures", (120, 80), **ROWS)
    task = PictureDetection(RECIPE, folder, network)
    assert "finds objects of" in "\n".join(task.notes())
    if write is not write_voc:  # one whole run is enough
        x, y = next(iter(task.batches(0)))
        assert x.shape == (2, 48, 48, 1) and set(np.unique(y["labels"])) <= {-2, -1, 0, 1}
        return
    results = run(task, tmp_path / "run")
    assert [row["magnification"] for row in results["magnifications"]][::2] == [0.5, 1, 2]
    assert results["counts"][0][0] == 2
    names = {path.name for path in (tmp_path / "run").rglob("*")}
    assert {"report.md", "model.keras", "saved_model", "counts_and_sizes.png"} <= names
    assert json.loads((tmp_path / "run/average_precision.json").read_text()) == results
    detector = keras.saving.load_model(tmp_path / "run/model.keras")
    assert detector.class_names == ["atom", "cell"] and detector.part_threshold == 0.7
    assert detector.confidence_threshold == results["threshold"]


def test_plan_follows_from_sizes(tmp_path):
    images = load_boxes(write_voc(tmp_path, (120, 80), **ROWS)).images
    plan = planned(RECIPE, images)
    assert plan.resolution == 1 and plan.extent == 27  # the median of 24 and 30
    assert plan.turns and not planned(dataclasses.replace(RECIPE, turns=False), images).turns
    larger = [image._replace(boxes=4 * image.boxes) for image in images]
    shrunk = planned(RECIPE, larger)
    assert shrunk.resolution == pytest.approx(0.26, rel=0.02)
    assert shrunk.train_scales == plan.train_scales and shrunk.crop == plan.crop
    # Found in the pictures as they are: channels follow the objects.
    assert shrunk.scales[0] == pytest.approx(4 * plan.scales[0])
    tiny_objects = [image._replace(boxes=image.boxes / 4) for image in images]
    assert planned(RECIPE, tiny_objects).resolution == 2
    assert min(planned(RECIPE, tiny_objects).scales) == 0.5
    with pytest.raises(ValueError, match="`size_range` must hold boxes"):
        planned(dataclasses.replace(RECIPE, size_range=(1.0, 2.0)), images)


@pytest.mark.parametrize("least_left", [0.02, 0.5])
def test_detectors_look_beyond_edges_where_cut_objects_have_boxes(tmp_path, least_left):
    """Objects lie anywhere; those of which an edge leaves too little have no box."""
    rng = np.random.default_rng(0)
    [first, *_] = load_boxes(write_voc(tmp_path, (120, 80), **ROWS)).images
    images = []
    for _ in range(30):
        low = rng.uniform([-24, -24], [120, 80], (12, 2))
        whole = np.concatenate([low, low + 24], axis=1)
        boxes = np.clip(whole, 0, [120, 80, 120, 80]).astype("float32")
        left = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) / 24**2
        boxes = boxes[left > least_left]
        images.append(first._replace(boxes=boxes, labels=np.zeros(len(boxes), "int32")))
    plan = planned(RECIPE, images)
    assert plan.border == (8 if least_left < 0.5 else 0)
    assert planned(dataclasses.replace(RECIPE, border=3.0), images).border == 3


def test_plans_that_cannot_be_trained_or_used(tmp_path):
    folder = write_voc(tmp_path, (120, 80), **ROWS)
    with pytest.raises(ValueError, match="must have boxes of `sizes`"):
        PictureDetection(dataclasses.replace(RECIPE, resolution=1e6), folder, network)
    wide = dataclasses.replace(RECIPE, find_sizes=(1e-9, 1e9))
    scales = planned(wide, load_boxes(folder).images).scales
    assert (scales[0], scales[-1]) == (0.5, 1024)


def test_matches_and_threshold():
    boxes = np.array([[0, 0, 10, 10], [20, 20, 30, 30]], "float32")
    found = np.array([[0, 0, 10, 9], [1, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]])
    match = matches(boxes, np.array([0, 1]), found, np.array([0, 0, 1, 0]))
    assert match.tolist() == [0, -1, 1, -1]
    one = Answer(boxes, np.array([0, 1]), found, np.zeros(4), np.array([0.9, 0.2, 0.6, 0.1]), match)
    assert best_threshold({1.0: [one]}, 0.3) == pytest.approx(0.4)
    nothing = one._replace(match=np.full(4, -1))
    assert best_threshold({1.0: [nothing]}, 0.3) == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size_range": (5.0, 2.0)}, "`size_range` must be LOW HIGH"),
        ({"insides": 2.0}, "`insides` must lie in"),
        ({"resolution": 0.0}, "`resolution` must be"),
        ({"crop": 8}, "`crop` must be"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(RECIPE, **changes)


def test_settings_tell_every_changed_pixel(tmp_path):
    folder = write_voc(tmp_path, (120, 80), **ROWS)
    for file in (folder / "JPEGImages").iterdir():  # whose length does not change
        Image.open(file).save(file.with_suffix(".bmp"))
        file.unlink()
    before = PictureDetection(RECIPE, folder, network).settings()
    assert PictureDetection(RECIPE, folder, network).settings() == before
    content = bytearray((folder / "JPEGImages/p0.bmp").read_bytes())
    content[-9] ^= 1
    (folder / "JPEGImages/p0.bmp").write_bytes(content)
    assert PictureDetection(RECIPE, folder, network).settings() != before
