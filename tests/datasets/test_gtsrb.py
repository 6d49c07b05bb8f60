import keras
import numpy as np
import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.datasets.catalogue.gtsrb import held_out_tracks

Image = pytest.importorskip("PIL.Image")

HEADER = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"
SIDES = (16, 22, 30, 35, 60)
TRACKS = 5


def write_photograph(folder, name, side, label, track):
    """A sign of one colour, which tells its class and track, a little off the middle."""
    height, width = side + 10, side + 14
    pixels = np.full((height, width, 3), 200, "uint8")
    pixels[5 : 5 + side, 6 : 6 + side] = (label, track, side)
    Image.fromarray(pixels).save(folder / name)
    return f"{name};{width};{height};6;5;{5 + side};{4 + side};{label}"


def write_training(directory, labels=(0, 7), tracks=TRACKS, sides=SIDES):
    for label in labels:
        folder = directory / "Final_Training" / "Images" / f"{label:05d}"
        folder.mkdir(parents=True)
        rows = [
            write_photograph(folder, f"{track:05d}_{k:05d}.ppm", side, label, track)
            for track in range(tracks)
            for k, side in enumerate(sides)
        ]
        (folder / f"GT-{label:05d}.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return directory


def write_test(directory, place):
    folder = directory / "Final_Test" / "Images"
    folder.mkdir(parents=True)
    rows = [write_photograph(folder, f"{k:05d}.ppm", side, 7, 99) for k, side in enumerate(SIDES)]
    (directory / place / "GT-final_test.csv").write_text("\n".join([HEADER, *rows]))


@pytest.fixture
def directory(tmp_path):
    return write_training(tmp_path)


def signs(part):
    """Class, track and side, as the pixel in the middle tells them."""
    middle = np.asarray(part.images)[:, part.images.shape[1] // 2, part.images.shape[2] // 2]
    return [tuple(int(value) for value in pixel) for pixel in middle]


def tracks(*parts):
    return {sign[:2] for part in parts for sign in signs(part)}


def test_signs_are_in_the_middle(directory):
    data = load_dataset("gtsrb", directory, frame=64)
    image = data.train.images[0]
    label, track, side = signs(data.train)[0]
    top = (64 - side + 1) // 2
    assert (image[top : top + side, top : top + side] == (label, track, side)).all()
    assert (image[:top] == 200).all() and (image[:, top + side :] == 200).all()


def test_training_sides(directory):
    data = load_dataset("gtsrb", directory, train_frame=48)
    assert data.train.images.shape[1:] == (48, 48, 3) and data.train.images.dtype == np.uint8
    for part in (data.train, data.validation):
        assert {side for _, _, side in signs(part)} == {30, 35}
        assert [label for label, _, _ in signs(part)] == part.labels.tolist()
    assert len(data.class_names) == 43 and data.class_names[14] == "stop"
    assert isinstance(data.preprocessor, keras.layers.Rescaling)
    assert data.size_name == "side of the sign, pixels" and data.train_sizes == (33.5,)


def test_split_by_track(directory):
    data = load_dataset("gtsrb", directory)
    tests = [data.test(size) for size in data.test_sizes]
    parts = [tracks(data.train), tracks(data.validation), tracks(*tests)]
    assert [len(part) for part in parts] == [6, 2, 2]
    assert len(set.union(*parts)) == 2 * TRACKS
    assert all({label for label, _ in part} == {0, 7} for part in parts)


def test_tracks_that_are_held_out(directory):
    data = load_dataset("gtsrb", directory, frame=64)
    held_out = held_out_tracks(directory)
    tested = tracks(*map(data.test, data.test_sizes))
    assert set(held_out) == {f"{label:05d}/{track:05d}" for label, track in tested}
    for photographs in held_out.values():
        assert [p.side for p in photographs] == list(SIDES)  # as the car comes nearer


def test_test_sizes_are_intervals_with_signs(directory):
    data = load_dataset("gtsrb", directory, edges=(15, 20, 30, 100, 200))
    assert data.test_sizes == (17.3, 24.5, 54.8)
    expected = ({16}, {22}, {30, 35, 60})
    for size, sides in zip(data.test_sizes, expected, strict=True):
        assert {sign[2] for sign in signs(data.test(size))} == sides
        assert isinstance(data.test(size).images, np.ndarray)
    with pytest.raises(ValueError, match=r"`size` must be one of \(17.3, .* Received: size=20"):
        data.test(20)


def test_seed(directory):
    first, same, other = (load_dataset("gtsrb", directory, seed=seed) for seed in (0, 0, 1))
    assert signs(first.train) == signs(same.train) != signs(other.train)


@pytest.mark.parametrize("place", [".", "Final_Test", "Final_Test/Images"])
def test_official_test_set(directory, place):
    write_test(directory, place)
    data = load_dataset("gtsrb", directory)
    assert {track for size in data.test_sizes for _, track in tracks(data.test(size))} == {99}
    assert len(tracks(data.train)) == 8 and len(tracks(data.validation)) == 2


def test_archive_unpacked_beside(tmp_path):
    write_training(tmp_path / "GTSRB")
    assert len(load_dataset("gtsrb", tmp_path).train.labels) == 12


def test_validation_at_all_sizes(directory):
    data = load_dataset("gtsrb", directory, test_split="validation")
    assert len(data.test_sizes) == 4
    assert tracks(*map(data.test, data.test_sizes)) == tracks(data.validation)


def test_fewer(directory):
    data = load_dataset("gtsrb", directory, count=4, test_count=1)
    assert data.train.labels.tolist() == [0, 0, 7, 7]
    assert len(data.test(data.test_sizes[0]).labels) == 1


def table(directory):
    return directory / "Final_Training" / "Images" / "00007" / "GT-00007.csv"


def test_missing_photograph(directory):
    (table(directory).parent / "00003_00002.ppm").unlink()
    with pytest.raises(FileNotFoundError, match=r"00003_00002.ppm, named in .*GT-00007.csv"):
        load_dataset("gtsrb", directory)


def test_damaged_photograph(directory):
    for file in table(directory).parent.glob("*_00002.ppm"):
        file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"_00002.ppm is not a picture that can be read"):
        load_dataset("gtsrb", directory)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Roi.X1", "Left", "must have the columns Filename, Roi.X1"),
        (";6;5;", ";six;5;", "must hold integers. Received: .*six"),
        (";7\n", ";43\n", "ClassId in .* must be at most 42. Received: 43"),
    ],
)
def test_bad_table(directory, old, new, message):
    table(directory).write_text(table(directory).read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        load_dataset("gtsrb", directory)


def test_too_few_tracks(tmp_path):
    write_training(tmp_path, tracks=2)
    with pytest.raises(ValueError, match="Class 0 has too few tracks"):
        load_dataset("gtsrb", tmp_path)


def test_no_signs_to_train_with(directory):
    with pytest.raises(ValueError, match=r"`train_sides` must leave signs .*\(90, 91\)"):
        load_dataset("gtsrb", directory, train_sides=(90, 91))


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file GT-NNNNN.csv was found"):
        load_dataset("gtsrb", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Final_Training of GTSRB.*None"):
        load_dataset("gtsrb")
