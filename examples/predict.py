"""Says what is in image files, with any exported network.

    python examples/predict.py runs/mine/saved_model street.png crossing.jpg

    file          class  confidence    size
    street.png     stop      100.0%    0.84
    crossing.jpg  yield       99.4%    3.36

The files are PNG or JPEG of any size, grey or colour, one object each in the middle. Pictures keep
their pixels: they are placed in the network's frame and continued beyond their edges. One that is
larger than the frame, such as a photograph, is shrunk until all of it fits. Trainings on a folder
show the middle of such pictures at full resolution instead; with `--option resize=` they shrink
them too. `size` is the object's in the file, in units of the finest scale channel, or of the
training size if the network was exported with that. It takes about ten seconds, most of them for
TensorFlow to start, and a few milliseconds for each further file. A file that cannot be used gets a
line that says why, the others go on, and the exit code is 1. With `--json`, one line a file
instead, with the likeliest classes:

    {"file": "street.png", "classes": [{"label": "stop", "confidence": 0.9998}, ...]}

    python examples/predict.py saved_models/default_size2/saved_model digit.png --object

With --object, the picture shows one object, such as a digit, on an even background, anywhere and
light on dark or dark on light: it is centred and shown light on dark.

It needs TensorFlow and Pillow, not gdn_keras, so that one file is enough where networks are served;
the few lines that the package has too stand here again for that. For a network of one's own,
`tf.saved_model.load(folder).serve_uint8` would do. A SavedModel is a program, though, so that of
one from elsewhere only the network is taken, and only if it is made of arithmetic.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from PIL import Image, ImageOps

Image.MAX_IMAGE_PIXELS = 50_000_000
BATCH = 50
# How many classes a line of JSON holds.
BEST = 5
# Share of the frame that a digit may fill: the data set's largest training size fills as much.
FILL = 80 / 112
# Least contrast of a digit to its background, in grey values of 255.
MIN_CONTRAST = 16
# What networks are made of; nothing that could read or write a file, or run code.
OPERATIONS = (
    "Abs Add AddN AddV2 ArgMax Atan Atan2 BatchMatMulV2 BiasAdd BroadcastTo Cast ConcatV2 Const "
    "Conv2D DepthwiseConv2dNative DivNoNan Einsum Elu EnsureShape Equal Erf Exp ExpandDims Fill "
    "Floor FloorDiv FloorMod GatherNd GatherV2 Greater GreaterEqual Identity IdentityN IsFinite "
    "LeakyRelu Less LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot MatMul Max Maximum "
    "Mean Min Minimum MirrorPad Mul Neg NoOp OnesLike Pack Pad PadV2 PartitionedCall Placeholder "
    "PlaceholderWithDefault Pow Prod Range RealDiv Reciprocal Relu Relu6 Reshape ReverseV2 "
    "Round Rsqrt Select SelectV2 Selu Shape Sigmoid Slice Softmax Softplus Softsign Split SplitV "
    "Sqrt Square SquaredDifference Squeeze StopGradient StridedSlice Sub Sum Tanh Tile Transpose "
    "Unpack ZerosLike"
)


def read_picture(path: Path, channels: int) -> np.ndarray:
    """The picture [height, width, channels], 0 to 255, upright; raises if there is any doubt."""
    if not path.is_file():
        raise ValueError("no such file")
    with warnings.catch_warnings():
        # Pillow only warns of decompression bombs up to twice its limit.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            image.load()
            image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).astype("uint8"))
    if image.has_transparency_data:
        # On mid-grey, black and white objects both stand out.
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (128, 128, 128)), image)
    pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], -1)


def place(pixels: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """The picture in the middle of a frame, its edge continued, and by how much it was shrunk."""
    shrink = max(1.0, *(n / m for n, m in zip(pixels.shape, frame, strict=False)))
    if shrink > 1:
        height, width = (max(1, round(n / shrink)) for n in pixels.shape[:2])
        image = Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
        pixels = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
        pixels = pixels.reshape(height, width, -1)
    margins = [
        ((m - n) // 2, m - n - (m - n) // 2) for n, m in zip(pixels.shape, frame, strict=False)
    ]
    return np.pad(pixels, [*margins, (0, 0)], "edge"), shrink


def light_on_dark(pixels: np.ndarray) -> np.ndarray:
    """A grey picture on a background of 0, which is what most of the border shows."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    pixels = np.float32(pixels) - np.median(border)
    if -pixels.min() > pixels.max():
        pixels = -pixels
    if pixels.max() < MIN_CONTRAST:
        raise ValueError("nothing stands out from the background")
    return np.maximum(pixels, 0)


def fit_frame(pixels: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """The object in the middle of a frame, and by how much it was shrunk to fit (1 if it did).

    The middle of an object is its centre of mass, as in MNIST. Objects that fit keep their size:
    the network takes them at any.
    """
    digit = np.where(pixels > pixels.max() / 4, pixels, 0)
    centres, shrink = [], 1.0
    for profile, length in zip((digit.sum(axis=1), digit.sum(axis=0)), frame, strict=True):
        centre = float((np.arange(len(profile)) + 0.5) @ profile / profile.sum())
        inside = np.flatnonzero(profile)
        reach = max(centre - inside[0], inside[-1] + 1 - centre)
        centres.append(centre)
        shrink = max(shrink, 2 * reach / (FILL * length))
    height, width = (round(shrink * length) for length in frame)
    top, left = (round(c - n / 2) for c, n in zip(centres, (height, width), strict=True))
    # Beyond the edges, `crop` continues with zeros: the background.
    part = Image.fromarray(pixels).crop((left, top, left + width, top + height))
    part = np.asarray(part.resize(frame[::-1], Image.Resampling.BILINEAR))
    return np.uint8(np.rint(part * (255 / part.max()))), shrink


def fail(message: str) -> NoReturn:
    """One line for a mistake in the command, and exit code 2."""
    print(f"predict.py: {message}", file=sys.stderr)
    sys.exit(2)


def load_endpoint(path: Path) -> tuple[Callable[[np.ndarray], dict], tuple[int, int], int]:
    """The endpoint for raw pixels, height and width of its images, and their channels."""
    if not (path / "saved_model.pb").is_file():
        fail(f"{path} is not a SavedModel: it has no file saved_model.pb")
    import tensorflow as tf  # takes seconds
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        content = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        meta = content.meta_graphs[0]
        if "serve_uint8" not in meta.signature_def:
            fail(f"{path} has no endpoint serve_uint8: export a network with its preprocessing")
        signature = meta.signature_def["serve_uint8"]
        outputs = {key: tensor.name for key, tensor in signature.outputs.items()}
        if "class_names" in meta.signature_def:
            names = meta.signature_def["class_names"].outputs["class_names"]
            outputs["class_names"] = names.name
        foreign = operations_of(meta.graph_def, outputs.values()) - set(OPERATIONS.split())
        if foreign:
            fail(f"{path} is refused, as it does more than arithmetic: {one_line(sorted(foreign))}")
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(meta.graph_def, name="")
        images = graph.get_tensor_by_name(signature.inputs["images"].name)
    except Exception as error:  # damaged files fail in many ways
        fail(f"{path} cannot be loaded, it may be damaged: {one_line(error)}")
    session = tf.compat.v1.Session(graph=graph)
    _, height, width, channels = images.shape
    return (
        lambda pixels: session.run(outputs, {images: pixels}),
        (height or 112, width or 112),
        channels,
    )


def operations_of(graph: Any, outputs: Iterable[str]) -> set[str]:
    """The names of the operations that some tensors of a graph need, in functions too."""
    functions = {function.signature.name: function.node_def for function in graph.library.function}
    nodes, names = {node.name: node for node in graph.node}, list(outputs)
    waiting, found = [], set()
    while names:
        if node := nodes.pop(names.pop().lstrip("^").partition(":")[0], None):
            waiting.append(node)
            names += node.input
    while waiting:
        node = waiting.pop()
        found.add(node.op)
        called = {node.op, *(value.func.name for value in node.attr.values())}
        called |= {function.name for value in node.attr.values() for function in value.list.func}
        for name in called & set(functions):
            waiting += functions.pop(name)
    return found - {function.signature.name for function in graph.library.function}


def predict(
    endpoint: Callable[[np.ndarray], dict],
    frame: tuple[int, int],
    channels: int,
    paths: list[Path],
    one_object: bool = False,
) -> list[tuple | str]:
    """Classes, best first, confidences and size of each file, or what is wrong with it."""
    results, images, shrinks = [], [], []
    for path in paths:
        try:
            pixels = read_picture(path, 1 if one_object else channels)
            if one_object:
                image, shrink = fit_frame(light_on_dark(pixels[..., 0]), frame)
                image = np.repeat(image[..., None], channels, axis=2)
            else:
                image, shrink = place(pixels, frame)
        except Exception as error:  # files of others: whatever it is, the rest goes on
            results.append(one_line(error))
        else:
            results.append(None)
            images.append(image)
            shrinks.append(shrink)
    if images:
        outputs = endpoint(np.stack(images))
        probabilities, sizes = (outputs[k] for k in ("probabilities", "relative_size"))
        names = outputs.get("class_names", np.arange(probabilities.shape[1]).astype("S"))
        names = np.array([one_line(name.decode(errors="replace")) for name in names])
        # By logits: several probabilities may be rounded to one.
        best = np.argsort(-outputs["logits"], axis=1, kind="stable")[:, :BEST]
        confidences = np.take_along_axis(probabilities, best, axis=1)
        rows = iter(zip(names[best], confidences, sizes * shrinks, strict=True))
        results = [next(rows) if result is None else result for result in results]
    return results


def one_line(message: object) -> str:
    """Text that does no harm to a table or a terminal."""
    text = " ".join(str(message).split()) or type(message).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def as_table(files: list[str], results: list[tuple | str]) -> Iterator[str]:
    """The likeliest class of each file."""
    width = max(4, *map(len, files))
    wide = max([5, *(len(result[0][0]) for result in results if not isinstance(result, str))])
    yield f"{'file':{width}}  {'class':>{wide}}  confidence    size"
    for file, result in zip(files, results, strict=True):
        if isinstance(result, str):
            yield f"{file:{width}}  cannot be used: {result}"
        else:
            names, confidences, size = result
            yield f"{file:{width}}  {names[0]:>{wide}}  {confidences[0]:10.1%}  {size:6.2f}"


def as_json(files: list[str], results: list[tuple | str]) -> Iterator[str]:
    """The likeliest classes of each file."""
    for file, result in zip(files, results, strict=True):
        if isinstance(result, str):
            record = {"file": file, "error": result}
        else:
            pairs = zip(*result[:2], strict=True)
            classes = [{"label": str(n), "confidence": round(float(c), 4)} for n, c in pairs]
            record = {"file": file, "classes": classes}
        yield json.dumps(record)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("saved_model", type=Path, help="folder written by export_saved_model")
    parser.add_argument("images", type=Path, nargs="+", help="PNG or JPEG files")
    text = "one object on an even background, such as a digit: centre it, light on dark"
    parser.add_argument("--object", action="store_true", help=text)
    parser.add_argument("--json", action="store_true", help="one line of JSON a file")
    options = parser.parse_args()
    endpoint, frame, channels = load_endpoint(options.saved_model)
    files = [one_line(path) for path in options.images]
    results = []
    for start in range(0, len(files), BATCH):
        paths = options.images[start : start + BATCH]
        results += predict(endpoint, frame, channels, paths, options.object)
    print(*(as_json if options.json else as_table)(files, results), sep="\n")
    return 1 if any(isinstance(result, str) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
