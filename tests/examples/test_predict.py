import os
import struct
import zlib

import keras
import numpy as np
import pytest
from PIL import Image

from gdn_keras.datasets import load_embedded_digits, place_object, read_picture
from gdn_keras.export import export_saved_model
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import Classifier
from tests.examples.conftest import load_example
from tests.exported import small_network

FRAME = (56, 56)
NAMES = tuple(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


@pytest.fixture(scope="module")
def predict():
    return load_example("predict")


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    model = Classifier(small_network((*FRAME, 1)), NAMES, ArctanContrast())
    return export_saved_model(model, tmp_path_factory.mktemp("export") / "x")


@pytest.fixture
def run(predict, saved_model, capsys):
    """The command: exit code, the lines of the table, the lines on stderr."""

    def run(*images, model=saved_model, flags=("--object",)):
        code = predict.main([str(model), *map(str, images), *flags])
        output = capsys.readouterr()
        return code, output.out.splitlines(), output.err.splitlines()

    return run


@pytest.fixture(scope="module")
def digits():
    return load_embedded_digits().x_test


def save(path, pixels, **options):
    Image.fromarray(pixels).save(path, **options)
    return path


def png(width, height, data):
    """A PNG file with any header and any data."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", data),
        (b"IEND", b""),
    ]
    body = (
        struct.pack(">I", len(x)) + kind + x + struct.pack(">I", zlib.crc32(kind + x))
        for kind, x in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def test_table(run, digits, tmp_path):
    files = [save(tmp_path / f"{i}.png", digits[i]) for i in range(3)]
    files.append(save(tmp_path / "large.jpg", np.kron(digits[0], np.ones((9, 9), "uint8"))))
    code, lines, _ = run(*files)
    assert code == 0
    assert lines[0].split() == ["file", "class", "confidence", "size"]
    for file, line in zip(files, lines[1:], strict=True):
        name, class_name, confidence, size = line.split()
        assert name == str(file)
        assert class_name in NAMES
        assert confidence.endswith("%") and 0 <= float(confidence[:-1]) <= 100
        assert float(size) > 0
    assert len({len(line) for line in lines}) == 1


def test_keras_files_give_the_same_classes(run, saved_model, digits, tmp_path):
    model = Classifier(small_network((*FRAME, 1)), NAMES, ArctanContrast())
    model.save(tmp_path / "model.keras")
    folder = export_saved_model(model, tmp_path / "export")
    file = save(tmp_path / "a.png", digits[0])
    (_, first), (_, second) = (run(file, model=m)[1] for m in (tmp_path / "model.keras", folder))
    assert first.split()[:3] == second.split()[:3]
    assert first.split()[3] == "-" and float(second.split()[3]) > 0


def test_dark_and_light_backgrounds_are_the_same(run, digits, tmp_path):
    light, dark = save(tmp_path / "a.png", digits[4]), save(tmp_path / "b.png", 255 - digits[4])
    _, (_, first, second), _ = run(light, dark)
    assert first.split()[1:] == second.split()[1:]


def test_modes_and_backgrounds_give_the_same_image(digits, tmp_path):
    grey = digits[7]
    alpha = np.zeros((28, 28, 4), "uint8")
    alpha[..., 3] = grey
    variants = {
        "grey": grey,
        "inverted": 255 - grey,
        "color": np.stack([grey] * 3, axis=-1),
        "off-white": 240 - grey // 4 * 3,
        "deep": grey.astype("uint16") * 257,
        "transparent, black": alpha,
        "transparent, white": np.maximum(alpha, [255, 255, 255, 0]).astype("uint8"),
    }
    images = []
    for name, pixels in variants.items():
        pixels = read_picture(save(tmp_path / f"{name}.png", pixels), 1)
        images.append(place_object(pixels, FRAME)[0].astype(int))
    for image, name in zip(images, variants, strict=True):
        assert np.abs(image - images[0]).max() <= 4, name


def test_color_pictures_as_they_are(run, tmp_path):
    model = Classifier(
        small_network((40, 40, 3)), NAMES, keras.layers.Rescaling(1 / 127.5, offset=-1)
    )
    folder = export_saved_model(model, tmp_path / "model")
    picture = np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype("uint8")
    file = save(tmp_path / "a.png", picture)
    code, (_, line), _ = run(file, model=folder, flags=())
    assert code == 0
    expected = NAMES[model.predict(picture[None], verbose=0).argmax()]
    assert line.split()[1] == expected


def test_photographs_lying_on_their_side_are_turned(tmp_path):
    pixels = np.zeros((20, 30), "uint8")
    pixels[5:9, 10:25] = 200
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = read_picture(save(tmp_path / "a.png", pixels, exif=exif), 1)[..., 0]
    np.testing.assert_array_equal(turned, np.rot90(pixels, -1))


def test_hostile_files_get_a_line_and_the_rest_go_on(run, digits, tmp_path):
    good = save(tmp_path / "good.png", digits[0])
    whole = good.read_bytes()
    rng = np.random.default_rng(0)
    photo = save(tmp_path / "photo.jpg", rng.integers(0, 255, (90, 90), "uint8")).read_bytes()
    hostile = {
        "empty.png": b"",
        "text.png": b"not an image",
        "cut.png": whole[: len(whole) // 2],
        "cut.jpg": photo[: len(photo) // 2],
        "bomb.png": png(60_000, 60_000, zlib.compress(bytes(1000))),
        "less than a bomb.png": png(14_000, 14_000, zlib.compress(bytes(1000))),
        "short.png": png(50, 50, zlib.compress(bytes(1000))),
        "no pixels.png": png(0, 0, zlib.compress(b"")),
        "gif.png": b"GIF89a" + bytes(100),
        "strange\n\x1b[31mname.png": b"",
    }
    for name, content in hostile.items():
        (tmp_path / name).write_bytes(content)
    save(tmp_path / "flat.png", np.full((40, 40), 200, "uint8"))
    os.mkfifo(tmp_path / "fifo.png")
    files = [tmp_path / name for name in (*hostile, "flat.png", "fifo.png", "missing.png")]
    code, lines, _ = run(good, *files, tmp_path, good)
    assert code == 1
    assert len(lines) == 1 + 1 + len(files) + 1 + 1
    assert all("cannot be used: " in line and line.isprintable() for line in lines[2:-1])
    assert lines[1] == lines[-1] and "%" in lines[1]
    reasons = dict(zip((*hostile, "flat", "fifo", "missing"), lines[2:], strict=False))
    assert "pixels" in reasons["bomb.png"] and "pixels" in reasons["less than a bomb.png"]
    assert "nothing stands out" in reasons["flat"]
    assert "No such file" in reasons["missing"]


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "other"])
def test_damaged_models_are_one_line(run, saved_model, digits, tmp_path, damage):
    folder = tmp_path / "model"
    folder.mkdir()
    content = (saved_model / "saved_model.pb").read_bytes()
    contents = {"empty": b"", "truncated": content[: len(content) // 2], "other": b"hello"}
    if damage in contents:
        (folder / "saved_model.pb").write_bytes(contents[damage])
    code, lines, errors = run(save(tmp_path / "a.png", digits[0]), model=folder)
    assert code == 2 and not lines
    (error,) = (line for line in errors if line.startswith("error: "))
    assert str(folder) in error
