import numpy as np
import pytest

from gdn_keras.datasets import load_dataset, place_in_frame
from gdn_keras.datasets.folder import FACTORS, framed_pictures, picture_heights

Image = pytest.importorskip("PIL.Image")


def random_pixels(height, width, channels, seed):
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, "uint8")


def write(directory, names=("cat", "dog"), count=5, channels=3, ending=".png", side=20):
    for k, name in enumerate(names):
        (directory / name).mkdir(parents=True)
        for i in range(count):
            pixels = random_pixels(side + i, side + 2 * k, channels, seed=100 * k + i)
            Image.fromarray(pixels).save(directory / name / f"{i:02d}{ending}")
    return directory


def test_classes_and_split(tmp_path):
    data = load_dataset("folder", write(tmp_path))
    assert data.class_names == ("cat", "dog")
    assert data.train.images.shape == (8, 24, 24, 3)
    assert np.bincount(data.train.labels).tolist() == [4, 4]
    assert np.bincount(data.validation.labels).tolist() == [1, 1]
    everything = np.concatenate([data.train.images, data.validation.images])
    assert len(np.unique(everything.reshape(10, -1), axis=0)) == 10


@pytest.mark.parametrize("frame", [17, 22, 40])
def test_pictures_are_placed_as_in_prediction(tmp_path, frame):
    data = load_dataset("folder", write(tmp_path), frame=frame)
    expected = [
        place_in_frame(random_pixels(20 + i, 20 + 2 * k, 3, 100 * k + i), (frame, frame))[0]
        for k in range(2)
        for i in range(5)
    ]
    images = np.concatenate([data.train.images, data.validation.images])
    assert {image.tobytes() for image in images} == {image.tobytes() for image in expected}


def test_seed(tmp_path):
    write(tmp_path, count=20)
    first, same, other = (load_dataset("folder", tmp_path, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.validation.images, same.validation.images)
    assert not np.array_equal(first.validation.images, other.validation.images)


@pytest.mark.parametrize(
    "ending", [".png", ".ppm", ".bmp", ".jpg", ".JPEG", ".webp", ".tif", ".gif"]
)
def test_formats(tmp_path, ending):
    assert load_dataset("folder", write(tmp_path, ending=ending)).train.images.shape[0] == 8


def test_other_files_are_left_alone(tmp_path):
    write(tmp_path)
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    (tmp_path / "cat" / "._00.png").write_bytes(b"of another system")
    (tmp_path / ".git").mkdir()
    with pytest.warns(UserWarning, match="skipped 1 files"):
        assert load_dataset("folder", tmp_path).class_names == ("cat", "dog")


def test_grey_pictures_have_one_channel(tmp_path):
    data = load_dataset("folder", write(tmp_path, channels=1))
    assert data.train.images.shape == (8, 24, 24, 1)
    assert load_dataset("folder", tmp_path, color=True).train.images.shape == (8, 24, 24, 3)


def test_grey_among_colors(tmp_path):
    write(tmp_path, names=("cat",), channels=1)
    write(tmp_path, names=("dog",), channels=3)
    data = load_dataset("folder", tmp_path)
    grey = np.asarray(data.train.images)[data.train.labels == 0]
    assert grey.shape[-1] == 3 and (grey == grey[..., :1]).all()
    assert load_dataset("folder", tmp_path, color=False).train.images.shape[-1] == 1


def test_pictures_are_upright(tmp_path):
    """The first pixel of a picture that its camera turned by a quarter is shown at the right."""
    write(tmp_path)
    pixels = np.zeros((10, 30, 3), "uint8")
    pixels[:5, :5] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    for file in tmp_path.glob("*/*.png"):
        Image.fromarray(pixels).save(file, exif=exif)
    image = load_dataset("folder", tmp_path).train.images[0]
    assert image.shape == (30, 30, 3)
    assert image[0, -1].tolist() == [255] * 3 and image[0, 0].tolist() == [0] * 3
    assert picture_heights(tmp_path, 30).tolist() == [30] * 10


def test_heights_are_those_in_the_frame(tmp_path):
    write(tmp_path, side=40)
    assert picture_heights(tmp_path, 50).tolist() == [40, 41, 42, 43, 44] * 2
    heights = picture_heights(tmp_path, 20)
    np.testing.assert_allclose(heights[:5], 20)
    np.testing.assert_allclose(heights[5:], [800 / 42, 820 / 42, 20, 20, 20])


def test_frame_is_limited(tmp_path):
    data = load_dataset("folder", write(tmp_path, side=300))
    assert data.train.images.shape[1:] == (224, 224, 3)
    assert data.test_sizes == (0.25, 2**-1.5, 0.5, 2**-0.5, 1)


def test_sizes_that_make_sense(tmp_path):
    write(tmp_path, side=20)
    assert load_dataset("folder", tmp_path).test_sizes == (1,)
    assert load_dataset("folder", tmp_path, frame=64).test_sizes == (1, 2**0.5, 2, 2**1.5)
    assert load_dataset("folder", tmp_path, test_sizes=(0.5, 3)).test_sizes == (0.5, 3)
    assert load_dataset("folder", tmp_path, test_sizes=()).test_sizes == ()
    assert 1 in FACTORS


def test_tests_are_the_held_out_pictures_rescaled(tmp_path):
    """A square on black becomes as large as the factor says, and stays in the middle."""
    write(tmp_path)
    pixels = np.zeros((21, 21, 3), "uint8")
    pixels[7:14, 7:14] = 255
    for file in tmp_path.glob("*/*.png"):
        Image.fromarray(pixels).save(file)
    data = load_dataset("folder", tmp_path, frame=41)
    np.testing.assert_array_equal(data.test(1).images, data.validation.images)
    for factor in (0.5, 2, 4):
        images, labels = data.test(factor)
        assert images.shape == (2, 41, 41, 3) and images.dtype == np.uint8
        assert labels.tolist() == data.validation.labels.tolist()
        area = images[0, ..., 0].sum() / 255
        assert area == pytest.approx((7 * factor) ** 2, rel=0.05)
        np.testing.assert_allclose(images[0], images[0, ::-1, ::-1], atol=1)


def test_tests_of_large_pictures_show_all_of_them(tmp_path):
    write(tmp_path)
    pixels = np.zeros((200, 200, 3), "uint8")
    pixels[:, 100:] = 255
    for file in tmp_path.glob("*/*.png"):
        Image.fromarray(pixels).save(file)
    data = load_dataset("folder", tmp_path, frame=40)
    for factor in (1, 0.5):
        image = data.test(factor).images[0, 20, :, 0]
        assert image[10] < 10 and image[30] > 245 and image[0] < 10 and image[-1] > 245


def test_no_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"one folder of pictures for each class.*nowhere"):
        load_dataset("folder", tmp_path / "nowhere")


def test_empty_directory(tmp_path):
    with pytest.raises(ValueError, match=r"two or more classes. Received: \[\]"):
        load_dataset("folder", tmp_path)


def test_one_class(tmp_path):
    with pytest.raises(ValueError, match=r"two or more classes. Received: \['cat'\]"):
        load_dataset("folder", write(tmp_path, names=("cat",)))


def test_empty_class(tmp_path):
    write(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty must hold two or more pictures.* Received: 0"):
        load_dataset("folder", tmp_path)


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b"<html>", lambda b: b[: len(b) // 2]])
def test_corrupt_file_is_named(tmp_path, damage):
    write(tmp_path)
    file = tmp_path / "dog" / "03.png"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=r"03.png is not a picture that can be read") as error:
        load_dataset("folder", tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_share": 0}, "`validation_share` must lie strictly between 0 and 1"),
        ({"validation_share": "x"}, "`validation_share` must lie in"),
        ({"seed": 1.5}, "`seed` must be an integer"),
        ({"test_sizes": 1}, "`test_sizes` must be a sequence"),
        ({"test_sizes": (0,)}, "`test_sizes` must be a positive"),
        ({"frame": 0}, "`frame` must be an integer >= 1. Received: frame=0"),
    ],
)
def test_bad_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        load_dataset("folder", write(tmp_path), **options)


def test_framed_pictures_are_indexed_like_an_array():
    pictures = [np.random.default_rng(k).integers(0, 256, (5 + k, 9, 3), "uint8") for k in range(6)]
    framed = framed_pictures(pictures, 8)
    array = np.stack([place_in_frame(p, (8, 8))[0] for p in pictures])
    assert framed.shape == array.shape and framed.dtype == np.uint8 and len(framed) == 6
    np.testing.assert_array_equal(framed, array)
    for index in (2, -1, slice(1, 4), np.array([3, 3, 0]), np.array([[1], [2]]), slice(0, 0)):
        np.testing.assert_array_equal(framed[index], array[index])
    with pytest.raises(IndexError):
        framed[6]
