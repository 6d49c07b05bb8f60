"""Folders with boxes in three formats, and what is wrong with them."""

import json

import numpy as np
import pytest

from gdn_keras.datasets.boxes import load_boxes, read_boxed_images, split_boxes
from tests.datasets.boxed_folders import write_coco, write_picture, write_voc, write_yolo

image = pytest.importorskip("PIL.Image")

WRITERS = {"Pascal VOC": write_voc, "COCO": write_coco, "YOLO": write_yolo}
ROWS = {"b": [("cell", 0, 0, 60, 40), ("atom", 10, 4, 20, 14)], "a": []}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_says_the_same(tmp_path, kind):
    data = load_boxes(WRITERS[kind](tmp_path, **ROWS))
    assert data.kind == kind and sorted(data.class_names) == ["atom", "cell"]
    images = {image.file.stem: image for image in data.images}
    assert images.keys() == {"a", "b"} and images["b"].shape == (40, 60)
    np.testing.assert_allclose(images["b"].boxes, [[0, 0, 60, 40], [10, 4, 20, 14]], atol=1e-3)
    assert [data.class_names[k] for k in images["b"].labels] == ["cell", "atom"]
    assert images["a"].boxes.shape == (0, 4)
    chosen = load_boxes(tmp_path, class_names=["cell", "dog", "atom"])
    assert chosen.class_names == ["cell", "dog", "atom"]
    with pytest.raises(ValueError, match=r"Missing: \['cell'\]"):
        load_boxes(tmp_path, class_names=["dog", "atom"])


@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_are_missing_or_of_another_shape_are_named(tmp_path, kind):
    WRITERS[kind](tmp_path, **ROWS)
    [file] = tmp_path.rglob("b.png")
    file.unlink()
    with pytest.raises(OSError, match=r"its picture, b(\.png)?, is missing"):
        load_boxes(tmp_path)
    if kind != "YOLO":
        write_picture(file, (40, 60))
        with pytest.raises(ValueError, match=r"b\.png must be 60 pixels wide .* annotation says"):
            load_boxes(tmp_path)


def test_pictures_without_annotation_are_counted(tmp_path):
    write_yolo(tmp_path, **ROWS)
    write_picture(tmp_path / "images/c.png")
    write_picture(tmp_path / "elsewhere/d.png")
    assert [file.name for file in load_boxes(tmp_path).skipped] == ["c.png"]


def test_one_format_and_one_only(tmp_path):
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match=r"annotations of one format: .*Received: none"):
        load_boxes(tmp_path)
    write_voc(tmp_path, **ROWS)
    write_yolo(tmp_path / "more", **ROWS)
    with pytest.raises(ValueError, match="Received: Pascal VOC and YOLO"):
        load_boxes(tmp_path)


def test_lists_of_pascal_voc(tmp_path):
    write_voc(tmp_path, **ROWS)
    lists = tmp_path / "ImageSets/Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("b\n")
    assert [image.file.stem for image in load_boxes(tmp_path, "train").images] == ["b"]
    (lists / "train.txt").write_text("b\nz\n")
    with pytest.raises(ValueError, match=r"train\.txt must name annotated pictures.*'z'"):
        load_boxes(tmp_path, "train")
    with pytest.raises(OSError, match=r"val\.txt"):
        load_boxes(tmp_path, "val")


def test_pictures_of_one_name_belong_to_the_nearest_annotation(tmp_path):
    for part, value in (("train", 1), ("valid", 2)):
        write_yolo(tmp_path / part, a=[("cell", 0, 0, 10 * value, 10)])
    by_part = {image.file.parts[-3]: image for image in load_boxes(tmp_path).images}
    assert by_part["train"].boxes[0, 2] == 10 and by_part["valid"].boxes[0, 2] == 20


def test_boxes_that_reach_beyond_are_cut_off_and_those_outside_refused(tmp_path):
    [found] = load_boxes(write_voc(tmp_path, a=[("cell", -4, 0, 70, 20)])).images
    np.testing.assert_array_equal(found.boxes, [[0, 0, 60, 20]])
    for box in ((70, 1, 80, 20), (20, 5, 10, 30), (5, 5, 5, 30), (float("nan"), 1, 80, 20)):
        with pytest.raises(ValueError, match=r"a.png: boxes must lie in the image, 60 pixels wide"):
            load_boxes(write_voc(tmp_path, a=[("cell", *box)]))


def test_voc_mistakes_are_named(tmp_path):
    write_voc(tmp_path, a=[("cell", 1, 1, 5, 5)])
    for text, what in (("<annotation>", ""), ("<annotation/>", "size/height is missing")):
        (tmp_path / "Annotations/a.xml").write_text(text)
        with pytest.raises(ValueError, match=rf"a.xml is not a Pascal VOC annotation \(.*{what}"):
            load_boxes(tmp_path)


def test_coco_mistakes_are_named(tmp_path):
    write_coco(tmp_path, **ROWS)
    file = tmp_path / "annotations.json"
    content = json.loads(file.read_text())
    crowd = {**content["annotations"][0], "iscrowd": 1}
    file.write_text(json.dumps({**content, "annotations": [crowd, *content["annotations"]]}))
    assert sum(len(image.labels) for image in load_boxes(tmp_path).images) == 2
    no_boxes = [{"image_id": 0, "category_id": 9}]
    for name, value in (("images", [{"id": 3}]), ("categories", []), ("annotations", no_boxes)):
        file.write_text(json.dumps({**content, name: value}))
        with pytest.raises(ValueError, match="is not a COCO file of boxes"):
            load_boxes(tmp_path)
    file.write_text("{")
    with pytest.raises(ValueError, match="is not a COCO file of boxes"):
        load_boxes(tmp_path)


@pytest.mark.parametrize(
    "line", ["2 .5 .5 .1 .1", "-1 .5 .5 .1 .1", "0 .5 .5 .1", "cell 1 2 3 4", "0 5 5 20 20"]
)
def test_yolo_mistakes_are_named(tmp_path, line):
    write_yolo(tmp_path, **ROWS)
    (tmp_path / "labels/b.txt").write_text(f"0 .5 .5 .1 .1\n{line}\n")
    with pytest.raises(ValueError, match=r"b\.txt, line 2 must be the number of a class from 0"):
        load_boxes(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels/classes.txt", "cell\natom\n"),
        ("obj.names", "cell\natom\n"),
        ("data.yaml", "nc: 2\nnames: ['cell', \"atom\"]  # two\n"),
        ("data.yaml", "names:\n  0: cell\n  1: atom\nnc: 2\n"),
        ("data.yaml", "names:\n- cell\n- atom\nnc: 2\n"),
        ("data.yml", "train: x\nnames: {0: cell, 1: atom}\n"),
        ("data.yml", "names: {1: atom, 0: cell}\n"),
        ("data.yaml", "names:\n  1: atom\n  0: 'cell'\n"),
        ("classes.txt", "\ufeffcell\natom\n"),
    ],
)
def test_yolo_names(tmp_path, name, text):
    write_yolo(tmp_path, **ROWS)
    (tmp_path / "classes.txt").unlink()
    (tmp_path / name).write_text(text)
    assert load_boxes(tmp_path).class_names == ["cell", "atom"]


def test_pictures_turned_by_their_camera(tmp_path):
    turned = image.Exif()
    turned[0x0112] = 6  # the camera stood upright
    write_voc(tmp_path, a=[("cell", 1, 1, 30, 20)])
    file = tmp_path / "JPEGImages/a.png"
    write_picture(file, (40, 60), exif=turned)  # shown with 60 columns, as the annotation says
    assert load_boxes(tmp_path).images[0].shape == (40, 60)
    write_picture(file, (60, 40), exif=turned)
    with pytest.raises(
        ValueError, match=r"a\.png must be 60 pixels wide .* as its annotation says"
    ):
        load_boxes(tmp_path)
    write_yolo(tmp_path / "yolo", a=[("cell", 1, 1, 30, 20)])
    write_picture(tmp_path / "yolo/images/a.png", (40, 60), exif=turned)
    with pytest.raises(ValueError, match=r"a\.png must be stored upright"):
        load_boxes(tmp_path / "yolo")


@pytest.mark.parametrize("resolution", [1, 0.5, 0.31])
def test_boxed_images_become_arrays_for_fit(tmp_path, resolution):
    images = sorted(load_boxes(write_voc(tmp_path, **ROWS)).images, key=lambda image: image.file)
    pixels, truth = read_boxed_images(images[::-1], resolution)
    longer = round(60 * resolution)  # the shorter side follows
    assert pixels.shape == (2, round(40 / 60 * longer), longer, 3)
    assert pixels.dtype == "uint8"
    np.testing.assert_allclose(
        truth["boxes"][0, 1], resolution * np.array([10, 4, 20, 14]), rtol=0.1
    )
    assert truth["labels"].tolist() == [[1, 0], [-1, -1]]
    for wrong in ([], [images[0]._replace(shape=(41, 60)), images[1]]):
        with pytest.raises(ValueError, match="all of one height and width"):
            read_boxed_images(wrong)
    with pytest.raises(ValueError, match=r"a\.png must be .* as its annotation says"):
        read_boxed_images([images[0]._replace(shape=(60, 40))], resolution)


def test_groups_are_not_divided(tmp_path):
    rows = {f"{slide}_{k}": [("cell", 1, 1, 20, 20)] for slide in "pqrs" for k in range(3)}
    images = load_boxes(write_voc(tmp_path, **rows)).images
    train, held_out = split_boxes(images, 0.5, r"^(\w)_")
    slides = [{image.file.stem[0] for image in part} for part in (train, held_out)]
    assert len(train) == len(held_out) == 6 and not slides[0] & slides[1]
    assert split_boxes(images, 0.5, r"^(\w)_") == (train, held_out)
    names = tmp_path / "names.txt"
    names.write_text("p_1\nq_0.png\n")
    assert {image.file.stem for image in split_boxes(images, str(names))[1]} == {"p_1", "q_0"}
    for arguments, message in (
        ((0.5, "^x"), "`group` must match in the name of each picture"),
        ((0.5, "("), "`group` must be a regular expression"),
        ((1.5,), "`validation` must be a share"),
        ((0.5, "_"), "`validation` must be a share .* of 1"),
    ):
        with pytest.raises(ValueError, match=message):
            split_boxes(images, *arguments)
    with pytest.raises(OSError, match="no_such"):
        split_boxes(images, "no_such.txt")


def test_lists_tell_pictures_of_one_name_by_their_folders(tmp_path):
    for folder in ("x", "y"):
        write_voc(tmp_path / folder, **ROWS)
    images, names = load_boxes(tmp_path).images, tmp_path / "names.txt"
    names.write_text("\ufeffx/JPEGImages/b.png\n", encoding="utf-8")
    _, [held_out] = split_boxes(images, str(names))
    assert held_out.file == tmp_path / "x/JPEGImages/b.png"
    names.write_text("b\n")
    with pytest.raises(ValueError, match=r"names\.txt must name annotated pictures.*'b'"):
        split_boxes(images, str(names))


@pytest.mark.parametrize("write", [write_voc, write_coco, write_yolo])
def test_endings_may_be_in_capitals(tmp_path, write):
    write(tmp_path, **ROWS)
    expected = [image.labels.tolist() for image in load_boxes(tmp_path).images]
    for file in [path for path in tmp_path.rglob("*.*") if path.name != "classes.txt"]:
        file.rename(file.with_suffix(file.suffix.upper()))
    assert [image.labels.tolist() for image in load_boxes(tmp_path).images] == expected


@pytest.mark.parametrize(
    ("part", "value"), [("images", {"file_name": 5}), ("categories", {"id": "x", "name": 5})]
)
def test_coco_numbers_in_the_place_of_names(tmp_path, part, value):
    file = write_coco(tmp_path, **ROWS) / "annotations.json"
    content = json.loads(file.read_text())
    content[part][-1] |= value
    if part == "images":
        file.write_text(json.dumps(content))
        with pytest.raises(OSError, match="its picture, 5, is missing"):
            load_boxes(tmp_path)
        return
    for row in content["annotations"]:
        row["category_id"] = "x" if row["category_id"] == 11 else row["category_id"]
    file.write_text(json.dumps(content))
    assert "5" in load_boxes(tmp_path).class_names


@pytest.mark.parametrize("text", ["names: {0: cell, 2: atom}", "names: [cell, cell]"])
def test_yolo_names_that_would_be_others(tmp_path, text):
    write_yolo(tmp_path, **ROWS)
    (tmp_path / "classes.txt").unlink()
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"data\.yaml must name classes that differ"):
        load_boxes(tmp_path)


def test_yolo_names_with_commas(tmp_path):
    write_yolo(tmp_path, **ROWS)
    (tmp_path / "classes.txt").unlink()
    (tmp_path / "data.yaml").write_text("names: ['cell, whole', \"atom\"]\n")
    assert load_boxes(tmp_path).class_names == ["cell, whole", "atom"]
