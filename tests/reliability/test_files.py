"""Files of users and of strangers: read in one way, never lost, and never trusted."""

import base64
import dataclasses
import json
import multiprocessing
import os
import resource
import struct
import subprocess
import sys
import zipfile
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from gdn_keras.datasets import LabelledImages, load_dataset, read_picture
from gdn_keras.datasets.boxes import BoxedImage, read_boxed_images
from gdn_keras.detection import Detector
from gdn_keras.export import export_saved_model
from gdn_keras.layers import ArctanContrast
from gdn_keras.serving import load_predictor, read_pictures
from gdn_keras.training.classification_task import describe_data
from gdn_keras.training.run_folder import SETTINGS, load_network, open_run, taking_up
from tests.detection.networks import detected, tiny_network
from tests.examples.conftest import load_example
from tests.training.conftest import tiny_data

FORKS = multiprocessing.get_context("fork")


# The fingerprint of data


@pytest.mark.parametrize("part", ["training", "validation", "test"])
def test_a_run_notices_every_changed_image(part):
    data = tiny_data()
    known = describe_data(data)
    name = {"training": "train"}.get(part, part)
    images, labels = data.test(1.0) if part == "test" else getattr(data, name)
    for index in (1, len(images) - 2):
        other = np.array(images)
        other[index, 5, 5] += 1
        changed = LabelledImages(other, labels)
        value = (lambda size, changed=changed: changed) if part == "test" else changed
        described = describe_data(dataclasses.replace(data, **{name: value}))
        differing = {key for key in described if described[key] != known[key]}
        assert differing == {f"{part}_checksum"}


def test_images_on_disk_have_the_fingerprint_of_those_in_memory(tmp_path):
    data = tiny_data()
    images, labels = data.train
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    on_disk = dataclasses.replace(data, train=LabelledImages(mapped, labels))
    assert describe_data(on_disk) == describe_data(data)


# Pictures


def stroke(ground=0, ink=255):
    pixels = np.full((40, 40), ground, "uint8")
    pixels[10:30, 18:22] = ink
    return pixels


def folder_of(tmp_path, ending=".png", make=stroke):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for k in range(3):
            Image.fromarray(make()).save(tmp_path / name / f"{k}{ending}")
    return tmp_path


@pytest.mark.parametrize("ending", [".webp", ".tif", ".tiff", ".gif", ".bmp"])
def test_folders_take_what_pillow_reads(tmp_path, ending):
    assert len(load_dataset("folder", folder_of(tmp_path, ending)).train.labels) == 4


def test_folders_tell_what_they_skip(tmp_path):
    folder_of(tmp_path)
    (tmp_path / "a" / "more").mkdir()
    (tmp_path / "a" / "more" / "1.png").write_bytes(b"")
    (tmp_path / "b" / "notes.txt").write_text("")
    (tmp_path / "b" / "data.h5").write_bytes(b"")
    (tmp_path / "README").write_text("")
    (tmp_path / "b" / ".DS_Store").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"skipped 3 files .* 1 folders") as told:
        load_dataset("folder", tmp_path)
    assert len(told) == 1 and told[0].filename == __file__
    main = load_example("train_folder")
    options = main.parser().parse_args([str(tmp_path)])
    with pytest.warns(UserWarning, match=r"skipped 3 files .* 1 folders"):
        main.tasks_of(options)


@pytest.mark.parametrize(
    ("dtype", "ending"),
    [("uint16", ".png"), ("uint16", ".tif"), ("int32", ".tif"), ("float32", ".tif")],
)
def test_deep_pictures_are_stretched_by_their_own_range(tmp_path, dtype, ending):
    file = tmp_path / f"deep{ending}"
    pixels = stroke().astype(dtype) * 16 + 100  # 12 bits
    pixels[0, 0] = 100
    Image.fromarray(pixels).save(file)
    np.testing.assert_array_equal(read_picture(file, 1)[..., 0], stroke())


def test_one_hot_pixel_does_not_darken_a_picture(tmp_path):
    pixels = np.kron(stroke(), np.ones((8, 8), "uint8")).astype("uint16") * 16
    pixels[3, 3] = 65535
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = read_picture(tmp_path / "a.png", 1)[..., 0]
    np.testing.assert_array_equal(found[8:], np.kron(stroke(), np.ones((8, 8), "uint8"))[8:])


def test_colors_of_sixteen_bits_are_stretched_too(tmp_path):
    pixels = np.repeat(stroke()[..., None].astype("uint16") * 16, 3, axis=-1)
    (tmp_path / "a.png").write_bytes(tf.io.encode_png(pixels).numpy())
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png", 1)[..., 0], stroke())


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_eight_bits_are_never_stretched(tmp_path, mode):
    pixels = stroke(ground=100, ink=120)
    Image.fromarray(pixels).convert(mode).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png", 1)[..., 0], pixels)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_flat_and_invalid_values_are_pixels(tmp_path, dtype):
    pixels = np.full((20, 20), 7, dtype)
    if dtype == "float32":
        pixels[3, 3], pixels[4, 4] = np.nan, np.inf
    Image.fromarray(pixels).save(tmp_path / "a.tif")
    assert read_picture(tmp_path / "a.tif", 3).shape == (20, 20, 3)


@pytest.mark.parametrize(("ink", "ground"), [(0, 255), (255, 0), (60, 255), (200, 0)])
def test_transparent_pictures_stand_out(tmp_path, ink, ground):
    alpha = stroke()
    grey = np.full_like(alpha, ink)
    Image.fromarray(np.stack([grey, grey, grey, alpha], axis=-1)).save(tmp_path / "a.png")
    for channels in (1, 3):
        pixels = read_picture(tmp_path / "a.png", channels)
        assert (pixels[alpha == 0] == ground).all() and (pixels[alpha > 0] == ink).all()
    [scene] = read_pictures(tmp_path / "a.png", 1)
    np.testing.assert_array_equal(scene.pixels, read_picture(tmp_path / "a.png", 1))


def test_training_detection_and_prediction_read_the_same(tmp_path):
    alpha = np.stack([np.zeros((40, 40), "uint8")] * 3 + [stroke()], axis=-1)
    for name, pixels in {"deep.tif": stroke().astype("uint16") * 16, "clear.png": alpha}.items():
        file = tmp_path / name
        Image.fromarray(pixels).save(file)
        expected = read_picture(file, 3)
        assert np.ptp(expected) == 255
        boxed = BoxedImage(file, (40, 40), np.zeros((0, 4)), np.zeros(0))
        np.testing.assert_array_equal(read_boxed_images([boxed])[0][0], expected)
        [picture] = read_pictures(file, 3)
        np.testing.assert_array_equal(picture.pixels, expected)
        for label in "ab":
            (tmp_path / name[0] / label).mkdir(parents=True)
            for k in range(2):
                os.link(file, tmp_path / name[0] / label / f"{k}{file.suffix}")
        data = load_dataset("folder", tmp_path / name[0], color=True)
        np.testing.assert_array_equal(data.train.images[0], expected)


# Models from elsewhere


class Writes(tf.Module):
    """A served model that writes a file on the way."""

    def __init__(self, path):
        super().__init__()
        self.path = str(path)

    @tf.function(input_signature=[tf.TensorSpec((None, None, None, 1), "uint8", name="images")])
    def serve(self, images):
        tf.io.write_file(self.path, "x")
        nothing = tf.cast(tf.zeros((1, 10)), "float32") * tf.cast(tf.shape(images)[0], "float32")
        return {"probabilities": nothing, "logits": nothing, "boxes": nothing}


@pytest.mark.parametrize(("name", "script"), [("detect", "detect"), ("serve_uint8", "predict")])
def test_served_programs_are_refused(tmp_path, capsys, name, script):
    marker, path = tmp_path / "marker", tmp_path / "model"
    module = Writes(marker)
    setattr(module, name, module.serve)
    tf.saved_model.save(module, str(path), {name: module.serve})
    Image.fromarray(stroke()).save(tmp_path / "a.png")
    with pytest.raises(OSError, match="WriteFile"):
        load_predictor(path)
    assert load_example(script).main([str(path), str(tmp_path / "a.png")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not marker.exists()


def test_what_an_endpoint_does_not_need_is_not_looked_at(tmp_path):
    class Both(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 1), "uint8", name="images")])
        def serve_uint8(self, images):
            logits = tf.reduce_mean(tf.cast(images, "float32"), axis=(1, 2)) * [[1.0, 2.0]]
            return {"logits": logits, "probabilities": tf.sigmoid(logits)}

        @tf.function(input_signature=[tf.TensorSpec((None,), "float32", name="x")])
        def write(self, x):
            tf.io.write_file(str(tmp_path / "marker"), "x")
            return {"x": x}

    module = Both()
    signatures = {"serve_uint8": module.serve_uint8, "write": module.write}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures)
    found = load_predictor(tmp_path / "model").predict(np.full((1, 8, 8, 1), 3, "uint8"))
    np.testing.assert_allclose(found["logits"], [[3, 6]])
    assert not (tmp_path / "marker").exists()


def tiny_detector():
    return Detector(
        tiny_network(2, scales=(1.0, 2.0)),
        num_classes=2,
        preprocessor=ArctanContrast(stretch=False),
        confidence_threshold=0.1,
    )


def test_exported_detectors_are_arithmetic(tmp_path):
    detector = tiny_detector()
    export_saved_model(detector, tmp_path / "model")
    served = load_predictor(tmp_path / "model")
    images = np.random.default_rng(0).integers(0, 256, (2, 40, 24, 1), "uint8")
    expected, found = detected(detector, images), served.predict(images)
    assert expected["num_detections"].min() > 0
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4)


# Archives that ask for more memory than they are worth


def rewrite(file, change, compression=zipfile.ZIP_STORED):
    """Changes the contents of a .keras file, a dictionary of bytes."""
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    change(content)
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, value in content.items():
            archive.writestr(name, value)


def too_many_weights(content):
    text = content["config.json"].decode()
    content["config.json"] = text.replace('"units": 7', '"units": 70000000').encode()


def too_many_bytes(content):
    content["assets/zeros"] = bytes(300_000_000)


def too_large_images(content):
    config = content["config.json"].decode().replace("[null, 5]", "[null, 50000, 50000, 5]")
    content["config.json"] = config.encode()


PEAK = """
import resource, sys
from pathlib import Path
import gdn_keras
from gdn_keras.serving import load_predictor
from gdn_keras.training.run_folder import load_network
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for file in sys.argv[1:]:
    for load in (load_predictor, load_network):
        try:
            load(Path(file))
        except OSError as error:
            print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_small_files_that_need_much_memory_are_refused_at_once(tmp_path):
    """In one process, whose peak is that of the worst."""
    files = []
    for change in (too_many_weights, too_many_bytes, too_large_images):
        files.append(tmp_path / f"{change.__name__}.keras")
        keras.Sequential([keras.Input((5,)), keras.layers.Dense(7)]).save(files[-1])
        rewrite(files[-1], change, zipfile.ZIP_DEFLATED)
        assert files[-1].stat().st_size < 1_500_000
    command = [sys.executable, "-c", PEAK, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    *errors, grown = done.stdout.splitlines()
    assert len(errors) == 2 * len(files), done.stderr
    for file, error in zip(np.repeat(files, 2), errors, strict=True):
        assert str(file) in error and "it " in error
    assert int(grown) < 150_000  # kilobytes


def test_ordinary_files_are_modest(tmp_path):
    file = tmp_path / "model.keras"
    detector = tiny_detector()
    detector.compile("adam")
    detector.save(file)
    assert isinstance(load_network(file), Detector)
    # The check leaves no variables behind that would be given values later.
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(7)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.stateless_call(model.trainable_variables, [], np.zeros((1, 5)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


# detect.py


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.keras"
    tiny_detector().save(file)
    return str(file)


def test_pictures_of_users_are_not_replaced(model, tmp_path, capsys):
    Image.fromarray(stroke()).save(tmp_path / "precious.png")
    (tmp_path / "precious_boxes.png").write_bytes(b"precious")
    assert load_example("detect").main([model, str(tmp_path / "precious.png")]) == 0
    assert (tmp_path / "precious_boxes.png").read_bytes() == b"precious"
    (drawn,) = set(tmp_path.iterdir()) - {tmp_path / f"precious{x}.png" for x in ("", "_boxes")}
    assert str(drawn) in capsys.readouterr().out
    assert read_picture(drawn, 3).shape[:2] == (40, 40)


def test_inputs_of_one_name_have_pictures_each(model, tmp_path, capsys):
    files = [tmp_path / name / "x.png" for name in ("a", "b")]
    for light, file in zip((0, 255), files, strict=True):
        file.parent.mkdir()
        Image.fromarray(stroke(ground=light, ink=255 - light)).save(file)
    arguments = [model, *map(str, files), "--output", str(tmp_path / "out")]
    assert load_example("detect").main(arguments) == 0
    drawn = sorted((tmp_path / "out").iterdir())
    dark, light = (np.mean(read_picture(file, 3)) for file in drawn)
    assert light > dark + 50
    said = capsys.readouterr().out
    assert all(str(file) in said for file in drawn)


# demo.py


def png(width, height):
    """A valid picture of zeros, some kilobytes long."""
    stream, row = zlib.compressobj(), bytes(width + 1)
    body = b"".join(stream.compress(row) for _ in range(height)) + stream.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = (
        struct.pack(">I", len(x)) + kind + x + struct.pack(">I", zlib.crc32(kind + x))
        for kind, x in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize("sides", [(20_000, 20_000), (10_000, 6_000)])
def test_the_demo_refuses_huge_uploads(sides):
    url = "data:image/png;base64," + base64.b64encode(png(*sides)).decode()
    demo = load_example("demo")
    source = demo.source_of_digits(url)
    assert source is None and demo.answer(None, source, 1.0).found.endswith(".</p>")


def test_the_demo_does_not_decode_long_uploads(monkeypatch):
    demo = load_example("demo")
    monkeypatch.setattr(demo, "MAX_BYTES", 1000)
    monkeypatch.setattr(demo.base64, "b64decode", lambda _: pytest.fail("decoded"))
    assert demo.source_of_digits("data:image/png;base64," + "A" * 1000) is None


# Folders of runs


def _open(folder, seed, barrier, accepted):
    barrier.wait()
    try:
        open_run({"seed": seed}, folder)
        accepted.put(seed)
    except ValueError:
        accepted.put(None)


def test_of_two_runs_that_begin_at_once_one_is_accepted(tmp_path):
    for trial in range(10):
        barrier, accepted = FORKS.Barrier(2), FORKS.Queue()
        folder = tmp_path / str(trial)
        folder.mkdir()
        processes = [
            FORKS.Process(target=_open, args=(folder, seed, barrier, accepted)) for seed in (1, 2)
        ]
        for process in processes:
            process.start()
        found = [accepted.get(timeout=30) for _ in processes]
        for process in processes:
            process.join()
        (winner,) = (seed for seed in found if seed is not None)
        assert json.loads((folder / SETTINGS).read_text()) == {"seed": winner}
        assert [file.name for file in folder.iterdir()] == [SETTINGS]


def test_settings_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    open_run({"seed": 1}, tmp_path)
    with pytest.raises(ValueError, match="seed"):
        open_run({"seed": 2}, tmp_path)


def _hold(folder, taken):
    with taking_up(folder):
        taken.set()
        FORKS.Event().wait()


def test_a_run_is_taken_up_by_one_process_until_it_is_killed(tmp_path):
    open_run({"seed": 1}, tmp_path)
    taken = FORKS.Event()
    process = FORKS.Process(target=_hold, args=(tmp_path, taken))
    process.start()
    assert taken.wait(30)
    with pytest.raises(OSError, match="nother process"), taking_up(tmp_path):
        pass
    process.kill()
    process.join()
    with taking_up(tmp_path):
        pass
    with taking_up(tmp_path):  # and it is let go at the end
        pass


def test_training_and_detection_hold_their_folders(tmp_path, monkeypatch):
    from gdn_keras.training import Classification, Recipe, Run
    from gdn_keras.training.digit_detection import DigitDetection, DigitRecipe

    recipe = Recipe(epochs=1, widths=(4,), scales=(1.0,))
    tasks = Classification(recipe, tiny_data()), DigitDetection(DigitRecipe(epochs=1))
    for name, task in zip("ab", tasks, strict=True):
        run = Run(task, tmp_path / name)
        for work in (run.train, run.complete):
            with taking_up(run.folder), pytest.raises(OSError, match="nother process"):
                work()
