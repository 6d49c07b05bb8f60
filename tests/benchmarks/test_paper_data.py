"""The data sets of the benchmarks: what is read and drawn, against what was written."""

import io
import math
import tarfile

import numpy as np
import pytest
from paper_data import gtsrb, mnist_scale, stir_mnist
from PIL import Image
from scipy import ndimage

from gdn_keras.datasets import Digits, load_dataset, load_embedded_digits, load_large_scale
from tests.datasets.idx_files import write_idx_files


@pytest.fixture(scope="module")
def digits():
    return load_embedded_digits()


def pixels_of(part):
    return set(np.ravel(part.images).tolist())


def numbered(digits):
    """Digits of one pixel, which tells which of all it is."""
    return digits._replace(
        x_train=np.arange(4000)[:, None, None], x_test=4000 + np.arange(1000)[:, None, None]
    )


def test_fashion_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_CACHE", str(tmp_path / "cache"))
    images = np.random.default_rng(0).integers(0, 256, (40, 28, 28), "uint8")
    labels = np.arange(40, dtype="uint8") % 10
    clothes = Digits(images, labels, images[:20], labels[:20])
    write_idx_files(tmp_path, clothes)
    data = load_dataset("fashion_mnist", tmp_path)
    np.testing.assert_array_equal(data.train.images[..., 0], images[:36])
    assert data.class_names[9] == "Ankle boot"
    data = load_dataset("fashion_mnist_large_scale", tmp_path, frame=40)
    expected = load_large_scale("test", 2, source=clothes, output_shape=(40, 40), cache=False)
    np.testing.assert_array_equal(data.test(2).images, expected.images)


def cifar_batches():
    """Six batches of four photographs: label, then red, green and blue."""
    rng = np.random.default_rng(0)
    labels, pixels = (
        rng.integers(0, 10, (6, 4), "uint8"),
        rng.integers(0, 256, (6, 4, 3072), "uint8"),
    )
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    contents = np.concatenate([labels[..., None], pixels], axis=2)
    files = {f"cifar-10-batches-bin/{n}": c.tobytes() for n, c in zip(names, contents, strict=True)}
    return files, pixels.reshape(6, 4, 3, 32, 32).transpose(0, 1, 3, 4, 2), labels


@pytest.mark.parametrize("packed", [True, False])
def test_cifar10(tmp_path, packed):
    files, images, labels = cifar_batches()
    archive = tmp_path / "cifar-10-binary.tar.gz"
    (tmp_path / "cifar-10-batches-bin").mkdir()
    with tarfile.open(archive, "w:gz") as stream:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            stream.addfile(member, io.BytesIO(content))
            if not packed:
                (tmp_path / name).write_bytes(content)
    data = load_dataset("cifar10", tmp_path, frame=32, train_frame=48)
    mirrored = np.pad(images[0, 0], ((8, 8), (8, 8), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(data.train.images[0], mirrored)
    np.testing.assert_array_equal(data.train.labels, np.ravel(labels)[:18])
    np.testing.assert_array_equal(data.test(1).images, images[5])
    if packed:
        archive.write_bytes(archive.read_bytes()[:-5000])
        with pytest.raises(ValueError, match="truncated"):
            load_dataset("cifar10", tmp_path)


def write_signs(folder, rows):
    """Signs of one colour, which tells class, track and side, a little off the middle."""
    folder.mkdir(parents=True)
    table = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
    for name, label, track, side in rows:
        pixels = np.full((side + 10, side + 14, 3), 200, "uint8")
        pixels[5 : 5 + side, 6 : 6 + side] = (label, track, side)
        Image.fromarray(pixels).save(folder / name)
        table.append(f"{name};{side + 14};{side + 10};6;5;{5 + side};{4 + side};{label}")
    return "\n".join(table) + "\n"


@pytest.fixture
def signs(tmp_path):
    for label in (0, 7):
        folder = tmp_path / "Final_Training" / "Images" / f"{label:05d}"
        sides = enumerate((16, 22, 30, 35, 60))
        rows = [(f"{t:05d}_{k:05d}.ppm", label, t, side) for k, side in sides for t in range(5)]
        table = write_signs(folder, rows)
        (folder / f"GT-{label:05d}.csv").write_text(table)
    return tmp_path


def middles(part):
    """Class, track and side of each sign, from the pixel in the middle."""
    images = np.asarray(part.images)
    return [
        tuple(map(int, pixel))
        for pixel in images[:, images.shape[1] // 2, -1 - images.shape[2] // 2]
    ]


def test_gtsrb_holds_out_tracks(signs):
    data = load_dataset("gtsrb", signs, frame=64)
    tested = [sign for size in data.test_sizes for sign in middles(data.test(size))]
    parts = [
        {s[:2] for s in part} for part in (middles(data.train), middles(data.validation), tested)
    ]
    assert [len(part) for part in parts] == [6, 2, 2] and len(set.union(*parts)) == 10
    assert {side for *_, side in middles(data.train)} == {30, 35}
    assert [label for label, *_ in middles(data.train)] == data.train.labels.tolist()
    assert data.test_sizes == (17.3, 21.9, 33.5, 60.8)


def test_gtsrb_official_test_set(signs):
    folder = signs / "Final_Test" / "Images"
    table = write_signs(folder, [("00000.ppm", 7, 99, 22), ("00001.ppm", 7, 99, 60)])
    (signs / "GT-final_test.csv").write_text(table)
    data = load_dataset("gtsrb", signs, count=4)
    assert {track for size in data.test_sizes for _, track, _ in middles(data.test(size))} == {99}
    assert data.train.labels.tolist() == [0, 0, 7, 7]
    (folder / "00001.ppm").unlink()
    with pytest.raises(FileNotFoundError, match=r"00001.ppm"):
        load_dataset("gtsrb", signs)


def test_kth_tips(tmp_path):
    for k, material in enumerate(("cork", "cotton")):
        (tmp_path / material).mkdir()
        for distance in range(1, 10):
            for number in range(1, 10):
                pixels = np.full((30 + 5 * k, 40 - distance), 10 * distance + number, "uint8")
                name = f"{46 + k}-scale_{distance}_im_{number}_grey.png"
                Image.fromarray(pixels).save(tmp_path / material / name)
    data = load_dataset("kth_tips", tmp_path, frame=20, crops=2)
    assert data.class_names == ("cork", "cotton")
    assert data.train.images.shape == (2 * 3 * 5 * 4, 20, 20, 1)
    assert pixels_of(data.train) == {10 * d + n for d in (4, 5, 6) for n in (1, 2, 3, 4, 6)}
    assert pixels_of(data.validation) == {45, 55, 65} and pixels_of(data.test(9)) == {97, 98, 99}
    with pytest.raises(ValueError, match="`frame`"):
        load_dataset("kth_tips", tmp_path, frame=31)


def keys_kernel(x):
    """Cubic convolution with a = -1, which Pillow has in affine transforms."""
    x = abs(x)
    near, far = x**3 - 2 * x**2 + 1, -(x**3) + 5 * x**2 - 8 * x + 4
    return np.where(x < 1, near, np.where(x < 2, far, 0))


@pytest.mark.parametrize("factor", [0.3, 0.71, 1.0])
def test_mnist_scale_shrinks_about_the_middle(digits, factor):
    digit = digits.x_test[1]
    matrix = keys_kernel(((np.arange(28) - 13.5) / factor + 13.5)[:, None] - np.arange(28))
    expected = (matrix @ digit @ matrix.T).clip(0, 255)
    assert np.abs(mnist_scale.rescale(digit, factor) - expected).max() < 1.01  # rounded twice


def test_mnist_scale_splits(digits, monkeypatch):
    data = load_dataset("mnist_scale", enlarge=2, copies=3, count=20, test_count=30)
    assert data.train.images.shape == (60, 56, 56, 1) and len(data.test(1).labels) == 30
    monkeypatch.setattr(mnist_scale, "load_digits", lambda *args: numbered(digits))
    monkeypatch.setattr(mnist_scale, "rescale", lambda x, factor=1.0, enlarge=1: x)
    data = load_dataset("mnist_scale")
    parts = [pixels_of(part) for part in (data.train, data.validation, data.test(1))]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 5000


@pytest.mark.parametrize("size", [17, 28, 41, 64])
def test_stir_mnist_is_rendered_as_scipy_does(digits, size):
    images = stir_mnist.render_digits(digits.x_test[:4], size, np.random.default_rng(3))
    places = np.random.default_rng(3).integers(0, 64 - size + 1, (4, 2))
    for image, digit, (row, column) in zip(images, digits.x_test[:4], places, strict=True):
        smooth = ndimage.gaussian_filter(digit.astype(float), max(0, (28 / size - 1) / 2))
        frame = np.zeros((64, 64))
        resized = ndimage.zoom(smooth, size / 28, order=3, mode="mirror", grid_mode=True)
        frame[row : row + size, column : column + size] = resized.clip(0, 255)
        frame = ndimage.gaussian_filter(frame, 7 / 8 * size / 28, mode="nearest")
        frame = 2 / math.pi * np.arctan(0.02 * (frame - 128))
        frame = 255 * (frame - frame.min()) / np.ptp(frame)
        assert np.sqrt(np.mean((image[..., 0] - frame) ** 2)) < 1.5


def test_stir_mnist_splits(digits, monkeypatch):
    data = load_dataset("stir_mnist", scenario=1, count=2, train_frame=40)
    assert data.train.images.shape == (2 * 10 * 16, 40, 40, 1)
    assert data.test(20).images.shape == (20, 64, 64, 1)
    monkeypatch.setattr(stir_mnist, "load_digits", lambda *args: numbered(digits))
    monkeypatch.setattr(stir_mnist, "render_digits", lambda x, size, rng, frame: x[..., None])
    data = load_dataset("stir_mnist", count=4)
    parts = [pixels_of(part) for part in (data.train, data.validation, data.test(20))]
    assert [len(part) for part in parts] == [40] * 3 and len(set.union(*parts)) == 120


def test_crops_keep_pixels_and_continue_the_edge():
    original = np.random.default_rng(0).integers(0, 256, (30, 40, 3), "uint8")
    crop_about = gtsrb.crop_about
    np.testing.assert_array_equal(crop_about(original, 5, (10, 12)), original[8:13, 10:15])
    np.testing.assert_array_equal(crop_about(original, 4, (9.5, 12.5)), original[8:12, 11:15])
    corner = crop_about(original, 5, (0, 0))
    assert (corner[:3, :3] == original[0, 0]).all()
