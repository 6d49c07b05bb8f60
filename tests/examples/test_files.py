"""Forty files of all kinds through detect.py in one call: each is right, or one sentence."""

import contextlib
import csv
import io
import struct
import zlib

import keras
import numpy as np
import pytest
from PIL import Image

from gdn_keras.detection import Detector
from gdn_keras.models import gaussian_derivative_network
from tests.examples.conftest import load_example

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 64, 3), "uint8")
GREY = PIXELS[..., 0]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Finds something in every picture, grey as its network is."""
    file = tmp_path_factory.mktemp("model") / "model.keras"
    detector = Detector(
        gaussian_derivative_network((None, None, 1), (4,), 2, (1, 1.41), readout="points"),
        num_classes=2,
        preprocessor=keras.layers.Rescaling(1 / 255),
        confidence_threshold=0.01,
        class_names=["cat", "dog"],
    )
    detector.save(file)
    return file


def encoded(picture, form, **options):
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def turned(form):
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.fromarray(np.rot90(GREY)), form, exif=exif)


def header_of(width, height):
    """A PNG that claims to be large and holds nothing."""
    ihdr = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + ihdr + struct.pack(">I", zlib.crc32(ihdr))
    return b"\x89PNG\r\n\x1a\n" + chunk


def damaged(content):
    middle = len(content) // 2
    return content[:middle] + bytes(60) + content[middle + 60 :]


def good_files():
    """Names, contents, and how many pages they have."""
    picture, grey = Image.fromarray(PIXELS), Image.fromarray(GREY)
    alpha = np.dstack([PIXELS, GREY])
    deep = GREY.astype("uint16") * 257
    pages = [Image.fromarray(page) for page in (GREY, GREY.T, 255 - GREY)]
    palette = grey.convert("P")
    return {
        "grey.png": encoded(grey, "PNG"),
        "color.png": encoded(picture, "PNG"),
        "16 bits.png": encoded(Image.fromarray(deep), "PNG"),
        "12 in 16 bits.png": encoded(Image.fromarray(deep // 16), "PNG"),
        "16 bits.tif": encoded(Image.fromarray(deep), "TIFF"),
        "float.tif": encoded(Image.fromarray(GREY / np.float32(1000)), "TIFF"),
        "32 bits.tif": encoded(Image.fromarray(GREY.astype("int32") * 70_000), "TIFF"),
        "alpha.png": encoded(Image.fromarray(alpha), "PNG"),
        "la.png": encoded(Image.fromarray(alpha[..., 2:]), "PNG"),
        "palette.png": encoded(palette, "PNG"),
        "transparent palette.png": encoded(palette, "PNG", transparency=3),
        "palette of alphas.png": encoded(palette, "PNG", transparency=bytes(range(256))),
        "one bit.png": encoded(grey.convert("1"), "PNG"),
        "one bit.tif": encoded(grey.convert("1"), "TIFF", compression="group4"),
        "cmyk.jpg": encoded(picture.convert("CMYK"), "JPEG"),
        "cmyk.tif": encoded(picture.convert("CMYK"), "TIFF"),
        "progressive.jpg": encoded(picture, "JPEG", progressive=True),
        "grey.jpg": encoded(grey, "JPEG"),
        "turned.jpg": turned("JPEG"),
        "turned.png": turned("PNG"),
        "turned.tif": turned("TIFF"),
        "turned.webp": turned("WEBP"),
        "three pages.tif": encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:]),
        "packed.tif": encoded(picture, "TIFF", compression="tiff_lzw"),
        "ycbcr.tif": encoded(picture.convert("YCbCr"), "TIFF", compression="jpeg"),
        "a.bmp": encoded(picture, "BMP"),
        "a.webp": encoded(picture, "WEBP", lossless=True),
        "still.gif": encoded(palette, "GIF"),
        "moving.gif": encoded(palette, "GIF", save_all=True, append_images=[grey.rotate(180)]),
        "wrong.png": encoded(picture, "JPEG"),
        "no ending": encoded(grey, "PNG"),
        "3x3.png": encoded(Image.fromarray(GREY[:3, :3]), "PNG"),
        "long.png": encoded(Image.fromarray(GREY[:3]), "PNG"),
        "=SUM(A1).png": encoded(grey, "PNG"),
        "two\nlines.png": encoded(grey, "PNG"),
        "undecodable\udcff.png": encoded(grey, "PNG"),
    }


def bad_files():
    picture = Image.fromarray(PIXELS)
    png, jpeg = encoded(picture, "PNG"), encoded(picture, "JPEG")
    return {
        "1x1.png": encoded(picture.crop((0, 0, 1, 1)), "PNG"),
        "2x2.png": encoded(picture.crop((0, 0, 2, 2)), "PNG"),
        "empty.png": b"",
        "cut.png": png[: len(png) // 2],
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "cut.tif": encoded(picture, "TIFF")[:3000],
        "zeros.png": damaged(png),
        "text.png": b"no picture",
        "table.csv": b"file,count\n",
        "bomb.png": header_of(60_000, 60_000),
        "drawing.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    }


@pytest.fixture(scope="module")
def done(model, tmp_path_factory):
    """The folder of the files, the exit code, what was printed, and the tables, of one call."""
    folder = tmp_path_factory.mktemp("files")
    contents = good_files() | bad_files()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.png").mkdir()
    (folder / "grey_boxes.png").write_bytes(b"precious")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    files = [folder / name for name in (*contents, "folder.png", "missing.png")]
    tables = [folder / "objects.csv", folder / "counts.csv"]
    flags = ["--csv", tables[0], "--counts", tables[1], "--pixel-size", "0.5"]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = load_example("detect").main([str(x) for x in (model, *files, *flags)])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    found = []
    for table in tables:
        with table.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            found.append(list(csv.DictReader(file)))
    return folder, code, out.getvalue(), error.getvalue(), found


def test_each_is_right_or_one_sentence(done):
    folder, code, out, error, (_, counts) = done
    assert code == 1
    bad = {*bad_files(), "folder.png", "missing.png"}
    assert {row["file"] for row in counts if row["error"]} == {str(folder / name) for name in bad}
    assert len(counts) == len(good_files()) + 2 + len(bad)  # two further pages
    for line in out.splitlines():
        assert line.isprintable()
    assert sum("cannot be used: " in line for line in out.splitlines()) == len(bad)
    assert "finds objects of " in error and "Traceback" not in error
    stretched = [line for line in error.splitlines() if "were stretched" in line]
    assert len(stretched) == 5


def test_every_picture_is_drawn_once(done):
    folder, _, _, _, (_, counts) = done
    drawn = [path for path in folder.glob("*_boxes*.png") if path.name != "grey_boxes.png"]
    assert len(drawn) == sum(not row["error"] for row in counts)
    assert (folder / "grey_boxes_2.png") in drawn and (folder / "three pages_3_boxes.png") in drawn
    with Image.open(folder / "turned_boxes.png") as picture:
        assert picture.size == (64, 40)


def test_tables_agree(done):
    _, _, out, _, (objects, counts) = done
    for row in counts:
        mine = [o for o in objects if (o["file"], o["page"]) == (row["file"], row["page"])]
        if row["error"]:
            assert row["count"] == row["count_cat"] == row["median_size"] == "" and not mine
            continue
        assert int(row["count"]) == len(mine)
        for name in ("cat", "dog"):
            assert int(row[f"count_{name}"]) == sum(o["label"] == name for o in mine)
        for size in ("size", "size_um") if mine else ():
            median = np.median([float(o[size]) for o in mine])
            assert float(row[f"median_{size}"]) == pytest.approx(median, abs=0.001)  # as written
    for found in objects:
        assert float(found["size_um"]) == pytest.approx(float(found["size"]) / 2, abs=0.01)
    lines = [line for line in out.splitlines() if "%" in line]
    assert len(lines) == len(objects) > 0


@pytest.mark.parametrize(
    "names",
    [
        ("grey.png", "16 bits.png", "16 bits.tif", "float.tif", "32 bits.tif", "12 in 16 bits.png"),
        ("grey.png", "palette.png", "still.gif", "moving.gif", "turned.png", "turned.tif"),
        ("grey.png", "three pages.tif", "no ending", "=SUM(A1).png", "undecodable\udcff.png"),
        ("color.png", "packed.tif", "a.bmp", "a.webp"),
        ("progressive.jpg", "wrong.png"),
    ],
)
def test_equal_pixels_are_equal_answers(done, names):
    folder, _, _, _, (objects, _) = done
    columns = "x1", "y1", "x2", "y2", "confidence"
    found = [
        [[float(o[c]) for c in columns] for o in objects if (o["file"], o["page"]) == (file, "1")]
        for file in (str(folder / name) for name in names)
    ]
    for name, boxes in zip(names, found, strict=True):
        assert boxes and len(boxes) == len(found[0]), name
        np.testing.assert_allclose(boxes, found[0], atol=0.02, err_msg=name)
