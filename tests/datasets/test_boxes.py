"""Pascal VOC and COCO files, and what is wrong with them."""

import json

import numpy as np
import pytest

from gdn_keras.datasets.boxes import load_coco, load_pascal_voc, read_boxed_images

VOC = """<annotation><filename>{stem}.jpg</filename>
<size><width>60</width><height>40</height><depth>3</depth></size>{objects}</annotation>"""
OBJECT = """<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>
<ymax>{}</ymax></bndbox></object>"""


def write_voc(folder, **images):
    for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "ImageSets/Main/train.txt").write_text("\n".join(images) + "\n")
    for stem, rows in images.items():
        objects = "".join(OBJECT.format(*row) for row in rows)
        (folder / f"Annotations/{stem}.xml").write_text(VOC.format(stem=stem, objects=objects))
    return folder


def test_pascal_voc(tmp_path):
    folder = write_voc(tmp_path, b=[("cell", 1, 1, 60, 40), ("atom", 11, 5, 20, 14)], a=[])
    images, names = load_pascal_voc(folder)
    assert names == ["atom", "cell"]
    assert [image.file.name for image in images] == ["b.jpg", "a.jpg"]
    np.testing.assert_array_equal(images[0].boxes, [[0, 0, 60, 40], [10, 4, 20, 14]])
    assert images[0].labels.tolist() == [1, 0] and images[0].shape == (40, 60)
    assert images[1].boxes.shape == (0, 4)
    _, names = load_pascal_voc(folder, class_names=["cell", "dog", "atom"])
    assert names == ["cell", "dog", "atom"]


def test_boxes_that_reach_beyond_are_cut_off_and_those_outside_refused(tmp_path):
    folder = write_voc(tmp_path, a=[("cell", -3, 1, 70, 20)])
    images, _ = load_pascal_voc(folder)
    np.testing.assert_array_equal(images[0].boxes, [[0, 0, 60, 20]])
    for box in ((70, 1, 80, 20), (20, 5, 10, 30)):
        with pytest.raises(ValueError, match=r"a.jpg: boxes must lie in the image, 60 pixels wide"):
            load_pascal_voc(write_voc(tmp_path, a=[("cell", *box)]))


def test_voc_mistakes_are_named(tmp_path):
    folder = write_voc(tmp_path, a=[("cell", 1, 1, 5, 5)])
    with pytest.raises(ValueError, match=r"Missing: \['cell'\]"):
        load_pascal_voc(folder, class_names=["dog"])
    with pytest.raises(OSError, match=r"val\.txt"):
        load_pascal_voc(folder, "val")
    for text, what in (("<annotation>", ""), ("<annotation/>", "size/height is missing")):
        (folder / "Annotations/a.xml").write_text(text)
        with pytest.raises(ValueError, match=rf"a.xml is not a Pascal VOC annotation \(.*{what}"):
            load_pascal_voc(folder)


def test_coco(tmp_path):
    content = {
        "images": [{"id": 7, "file_name": "x.png", "height": 40, "width": 60}],
        "categories": [{"id": 9, "name": "dog"}, {"id": 2, "name": "cat"}],
        "annotations": [
            {"image_id": 7, "category_id": 9, "bbox": [1.5, 2, 10, 20]},
            {"image_id": 7, "category_id": 2, "bbox": [0, 0, 60, 40], "iscrowd": 1},
        ],
    }
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(content))
    [image], names = load_coco(file, tmp_path)
    assert names == ["cat", "dog"] and image.labels.tolist() == [1]
    np.testing.assert_array_equal(image.boxes, [[1.5, 2, 11.5, 22]])
    assert image.file == tmp_path / "x.png"
    for broken in ("{", json.dumps({"images": []}), json.dumps({**content, "categories": []})):
        file.write_text(broken)
        with pytest.raises(ValueError, match="is not a COCO file of boxes"):
            load_coco(file, tmp_path)


def test_boxed_images_become_arrays_for_fit(tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = write_voc(tmp_path, a=[("cell", 1, 1, 60, 40), ("atom", 11, 5, 20, 14)], b=[])
    for stem, value in (("a", 200), ("b", 30)):
        image.new("RGB", (60, 40), (value, 0, 0)).save(folder / f"JPEGImages/{stem}.jpg")
    images, _ = load_pascal_voc(folder)
    pixels, truth = read_boxed_images(images, 0.5)
    assert pixels.shape == (2, 20, 30, 3) and pixels.dtype == "uint8"
    np.testing.assert_allclose(pixels[:, 10, 15, 0], [200, 30], atol=3)
    np.testing.assert_array_equal(truth["boxes"][0], [[0, 0, 30, 20], [5, 2, 10, 7]])
    assert truth["labels"].tolist() == [[1, 0], [-1, -1]]
    other = images[0]._replace(shape=(41, 60))
    for wrong in ([], [other, images[1]]):
        with pytest.raises(ValueError, match="all of one height and width"):
            read_boxed_images(wrong)


@pytest.mark.parametrize("resolution", [1, 0.5, 0.31])
def test_files_of_another_shape_than_their_annotation_are_named(tmp_path, resolution):
    image = pytest.importorskip("PIL.Image")
    folder = write_voc(tmp_path, a=[("cell", 1, 1, 30, 20)])
    images, _ = load_pascal_voc(folder)
    file = folder / "JPEGImages/a.jpg"
    image.new("RGB", (60, 40)).save(file)
    assert abs(read_boxed_images(images, resolution)[0].shape[1] - 40 * resolution) <= 1
    image.new("RGB", (40, 60)).save(file)
    with pytest.raises(ValueError, match=r"a\.jpg must be .* as its annotation says"):
        read_boxed_images(images, resolution)
    rotated = image.Exif()
    rotated[0x0112] = 6  # the camera stood upright
    image.new("RGB", (60, 40)).save(file, exif=rotated)
    with pytest.raises(ValueError, match=r"a\.jpg must be .* as its annotation says"):
        read_boxed_images(images, resolution)
