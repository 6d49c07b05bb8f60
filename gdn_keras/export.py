"""Trained networks as SavedModel, ONNX and LiteRT files that run without this package.

All three hold one frozen graph: batch normalisation is folded into kernels that are composed once,
here, and everything else that does not depend on the images is a constant as well. TensorFlow is
imported when it is needed.
"""

import math
import os
import warnings
from pathlib import Path

import keras
import numpy as np

from gdn_keras.datasets.digits import load_embedded_digits
from gdn_keras.datasets.separable import GAIN, MIDPOINT, PEAK
from gdn_keras.datasets.transform import rescale_images
from gdn_keras.models.surgery import retarget, scale_channels_of
from gdn_keras.scale_space.validation import check_choice, check_positive
from gdn_keras.whole_files import replacing

# What an export may differ from the Keras model, in units of the largest logit or of 1.
TOLERANCE = 1e-4
PROBABILITIES = ("sigmoid", "softmax")
PIXELS = ("large_scale", "unit")
_REFERENCE_DIGITS = 100
_SAVED_MODEL_FILES = {"saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra"}
# Operations that matter to gradients only.
_PASSED_ON = {"Identity", "IdentityN", "StopGradient", "PreventGradient"}


def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike,
    *,
    training_size: float | None = None,
    reference_images: np.ndarray | None = None,
    probabilities: str = "sigmoid",
    pixels: str = "large_scale",
    overwrite: bool = True,
) -> Path:
    """Writes a SavedModel that runs with TensorFlow alone, for any batch size.

    Endpoints, each a method of the loaded object and a signature of the same name:

    - `serve`, also the signature `serving_default`: float32 images [batch, height, width,
      channels], with values as the network was trained on ([-0.764, 0.761] for MNIST Large Scale),
      to `logits` and `probabilities` [batch, classes]. Probabilities are the sigmoid of each logit
      for networks that are trained with binary cross-entropy on each class, and need not sum to
      one; see `probabilities`.
    - `scales`: the same images to `channel_logits` [batch, scale channels, classes];
      `selected_scale` [batch], the sigma_0 of the channel that holds the largest logit of all
      channels and classes; and `relative_size` [batch], see `training_size`.
    - `serve_uint8`, for networks on grey images: uint8 images [batch, height, width, 1] (as a
      method also [batch, height, width]) with a light object on a dark background, brought to what
      `serve` takes, see `pixels`. It gives all that `serve` and `scales` give.

    Example:

    >>> gdn_keras.export.export_saved_model(model, "run/saved_model", training_size=2)
    >>> served = tf.saved_model.load("run/saved_model")  # no gdn_keras, no keras
    >>> served.serve(images)["probabilities"]

    Args:
        model: A model made by `gaussian_derivative_network`, or another functional model from
            images over the stack of one `ScaleChannels` layer to logits. It is exported in
            float32, whatever precision it was trained in.
        path: Folder of the SavedModel. It appears when it is complete and checked.
        training_size: Size of the objects that the network was trained on. `relative_size` then is
            the estimated size in the same units, training_size * selected_scale / reference, where
            the reference is the median scale selected on images of that size, found now. Without
            it, `relative_size` is the selected scale over that of the finest channel. Either way
            its steps are those of the scale channels.
        reference_images: Images of size `training_size`, as `serve` takes them; digits of the
            package, brought to that size, by default.
        probabilities: "sigmoid", or "softmax" for networks that were trained with that.
        pixels: What `serve_uint8` does to grey values: "large_scale", the contrast of MNIST Large
            Scale (maximum to 255, then (2 / pi) arctan(0.02 (I - 128))), or "unit", division by
            255.
        overwrite: Whether a SavedModel at `path` is replaced. Anything else there never is.

    Returns:
        The folder.

    Raises:
        ValueError: If the model or an argument is of the wrong kind, or the SavedModel's logits
            differ from the model's.
        FileExistsError: If there is something at `path` that may not be replaced.
        RuntimeError: If Keras does not run on TensorFlow.
    """
    tf = _tensorflow()
    check_choice("probabilities", probabilities, PROBABILITIES)
    check_choice("pixels", pixels, PIXELS)
    model = _in_float32(model)
    path = _check_folder(path, overwrite)
    frozen = _freeze(model)
    scales = scale_channels_of(model).scales
    if training_size is not None:
        unit = _unit_scale(frozen, scales, training_size, reference_images)
    elif reference_images is None:
        unit = scales[0]
    else:
        raise ValueError("`reference_images` need a `training_size`. Received: training_size=None")
    module, signatures = _endpoints(frozen, scales, unit, probabilities, pixels)
    with replacing(path) as temporary:
        try:
            tf.saved_model.save(module, str(temporary), signatures)
        except tf.errors.OpError as error:  # such as a full disk
            raise OSError(f"{path} cannot be written: {error.message}") from error
        served = tf.saved_model.load(str(temporary)).signatures["serve"]
        _check_equal(model, lambda x: served(images=tf.constant(x))["logits"], "SavedModel")
    return path


def is_export_of(model: keras.Model, path: str | os.PathLike) -> bool:
    """Whether there is a SavedModel at `path` that loads and gives the logits of `model`."""
    import tensorflow as tf

    model = _in_float32(model)
    try:
        served = tf.saved_model.load(os.fspath(path)).signatures["serve"]
        _check_equal(model, lambda x: served(images=tf.constant(x))["logits"], "SavedModel")
    except Exception:  # damaged files fail in many ways
        return False
    return True


def export_onnx(
    model: keras.Model, path: str | os.PathLike, *, probabilities: str = "sigmoid"
) -> Path:
    """Writes an ONNX file: float32 `images` to `logits`, `probabilities` and `channel_logits`.

    Args:
        model: As in `export_saved_model`.
        path: The file; one that exists is replaced.
        probabilities: As in `export_saved_model`.

    Returns:
        The file.

    Raises:
        ImportError: If tf2onnx or onnxruntime is missing.
        ValueError: If the file's logits, computed by onnxruntime, differ from the model's.
    """
    _tensorflow()
    check_choice("probabilities", probabilities, PROBABILITIES)
    try:
        import onnxruntime
        import tf2onnx
    except ImportError as error:
        raise ImportError("Export to ONNX needs: pip install gdn_keras[onnx]") from error
    model, path = _in_float32(model), _check_file(path)
    _, function = _plain_function(_freeze(model), probabilities)
    inputs = {function.inputs[0].name: "images"}
    outputs = {tensor.name: key for key, tensor in function.structured_outputs.items()}
    proto, _ = tf2onnx.convert.from_graph_def(
        function.graph.as_graph_def(),
        input_names=list(inputs),
        output_names=list(outputs),
        tensors_to_rename={**inputs, **outputs},
        opset=17,
    )
    with replacing(path) as temporary:
        temporary.write_bytes(proto.SerializeToString())
        session = onnxruntime.InferenceSession(temporary, providers=["CPUExecutionProvider"])
        _check_equal(model, lambda x: session.run(["logits"], {"images": x})[0], "ONNX file")
    return path


def export_litert(
    model: keras.Model, path: str | os.PathLike, *, probabilities: str = "sigmoid"
) -> Path:
    """Writes a LiteRT (TensorFlow Lite) file with the signature `serve`.

    It takes float32 `images` and gives `logits`, `probabilities` and `channel_logits`.

    Args:
        model: As in `export_saved_model`.
        path: The file; one that exists is replaced.
        probabilities: As in `export_saved_model`.

    Returns:
        The file.

    Raises:
        ValueError: If the file's logits, computed by LiteRT, differ from the model's.
    """
    tf = _tensorflow()
    check_choice("probabilities", probabilities, PROBABILITIES)
    model, path = _in_float32(model), _check_file(path)
    module, function = _plain_function(_freeze(model), probabilities)
    content = tf.lite.TFLiteConverter.from_concrete_functions([function], module).convert()
    with replacing(path) as temporary:
        temporary.write_bytes(content)
        _check_equal(model, _litert_runner(temporary), "LiteRT file")
    return path


def _tensorflow():
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Export needs Keras on TensorFlow: set KERAS_BACKEND=tensorflow and load the .keras "
            f"file of the model there. Received: backend={keras.backend.backend()!r}"
        )
    import tensorflow as tf

    return tf


def _in_float32(model) -> keras.Model:
    """The model itself if it computes in float32, else a copy that does."""
    if not isinstance(model, keras.Model):
        raise ValueError(f"`model` must be a keras.Model. Received: model={model!r}")
    channels = scale_channels_of(model)
    ranks = len(channels.output.shape), len(model.output_shape)
    if ranks != (3, 2):
        raise ValueError(
            "`model` must go from images over a stack [batch, scale channels, classes], "
            '`ScaleChannels(..., pooling=None)` with output="center", to logits [batch, classes]. '
            f"Received: {tuple(channels.output.shape)} and {tuple(model.output_shape)}"
        )
    if all(layer.compute_dtype == "float32" for layer in _all_layers(model)):
        return model
    model = retarget(model)
    for layer in _all_layers(model):
        layer.dtype_policy = "float32"
    return model


def _all_layers(model):
    return [model, *model.layers, *scale_channels_of(model).program.layers]


def _freeze(model):
    """The network as a TensorFlow function of images only, with nothing left to compute twice."""
    tf = _tensorflow()
    both = keras.Model(model.inputs, [model.output, scale_channels_of(model).output])
    weights = [
        [keras.ops.convert_to_numpy(variable) for variable in variables]
        for variables in (both.trainable_variables, both.non_trainable_variables)
    ]

    @tf.function
    def network(images):
        outputs, _ = both.stateless_call(*weights, images, training=False)
        names = ("logits", "channel_logits")
        return {name: tf.identity(y) for name, y in zip(names, outputs, strict=True)}

    spec = tf.TensorSpec([None, *model.input_shape[1:]], "float32", name="images")
    return _fold_constants(network.get_concrete_function(spec))


def _fold_constants(function):
    """The same function, with what does not depend on its input computed now.

    That is the composition of kernels, the normalisation in them included.
    """
    tf = _tensorflow()
    graph, (images,) = function.graph, function.inputs
    inputs_of, source = _depending_on(images, graph)
    operands = {t.name: t for inputs in inputs_of.values() for t in inputs if t is not images}
    with tf.compat.v1.Session(graph=graph) as session:
        constants = session.run(
            {name: t for name, t in operands.items() if t.op.name not in inputs_of}
        )
    nodes = tf.compat.v1.GraphDef(versions=graph.as_graph_def().versions)
    for name, inputs in inputs_of.items():
        node = nodes.node.add()
        node.CopyFrom(graph.get_operation_by_name(name).node_def)
        node.input[:] = [tensor.name for tensor in inputs]
    outputs = {key: source.get(t.name, t).name for key, t in function.structured_outputs.items()}

    def folded(x):
        feeds = {name: tf.constant(value) for name, value in constants.items()}
        feeds[images.name] = x
        tensors = tf.graph_util.import_graph_def(nodes, feeds, list(outputs.values()), name="")
        return dict(zip(outputs, tensors, strict=True))

    spec = tf.TensorSpec(images.shape, images.dtype, name="images")
    return tf.function(folded).get_concrete_function(spec)


def _depending_on(images, graph):
    """The operations that depend on `images`, without those that only pass tensors on.

    Returns:
        The inputs of each operation by its name, and the tensors that were passed on, by the
        names of what they came out as.
    """
    inputs_of, source = {}, {}
    for op in graph.get_operations():
        inputs = [source.get(tensor.name, tensor) for tensor in op.inputs]
        if any(tensor is images or tensor.op.name in inputs_of for tensor in inputs):
            if op.type in _PASSED_ON:
                names = [tensor.name for tensor in op.outputs]
                source.update(zip(names, inputs, strict=True))
            else:
                inputs_of[op.name] = inputs
    return inputs_of, source


def _endpoints(frozen, scales, unit, probabilities, pixels):
    """The object to save and its signatures, as `export_saved_model` describes them."""
    tf = _tensorflow()
    shape = frozen.inputs[0].shape

    def serve(images):
        return _scores(frozen(_checked(images, shape)), probabilities)

    def select(images):
        return _selection(frozen(_checked(images, shape)), scales, unit)

    def serve_uint8(images):
        # [batch, height, width] gets a last axis of one; four axes stay as they are.
        images = tf.reshape(images, tf.concat([tf.shape(images), [1]], axis=0)[:4])
        images = tf.cast(_checked(images, shape), "float32")
        outputs = frozen(_contrasted(images) if pixels == "large_scale" else images / PEAK)
        return {**_scores(outputs, probabilities), **_selection(outputs, scales, unit)}

    endpoints = {"serve": (serve, "float32"), "scales": (select, "float32")}
    if shape[-1] == 1:
        endpoints["serve_uint8"] = (serve_uint8, "uint8")
    module, signatures = tf.Module(), {}
    for name, (function, dtype) in endpoints.items():
        spec = tf.TensorSpec(shape, dtype, name="images")
        signatures[name] = tf.function(function).get_concrete_function(spec)
        # With an input signature, a loaded method would quietly cast NumPy arrays of another type;
        # with a shape, it would answer another one with a print of all pixels.
        method = tf.function(function)
        method.get_concrete_function(tf.TensorSpec(None, dtype, name="images"))
        setattr(module, name, method)
    return module, {"serving_default": signatures["serve"], **signatures}


def _checked(images, shape):
    """`images`, or an error that names the shape that they have and the one that they must have."""
    tf = _tensorflow()
    # Signatures take any shape, whatever they declare, and the check would be optimised away as
    # always true, were it not for the placeholder.
    images = tf.compat.v1.placeholder_with_default(images, None, name="images")
    return tf.ensure_shape(images, shape)


def _contrasted(images):
    """Steps 3 and 4 of the MNIST Large Scale recipe (`gdn_keras.datasets.rescale_images`)."""
    tf = _tensorflow()
    peak = tf.reduce_max(images, axis=(1, 2, 3), keepdims=True)
    images = images * tf.math.divide_no_nan(PEAK, peak)
    return (2 / math.pi) * tf.atan(GAIN * (images - MIDPOINT))


def _scores(outputs, probabilities):
    logits = outputs["logits"]
    return {"logits": logits, "probabilities": getattr(_tensorflow().nn, probabilities)(logits)}


def _selection(outputs, scales, unit):
    tf = _tensorflow()
    stack = outputs["channel_logits"]
    winner = tf.argmax(tf.reduce_max(stack, axis=2), axis=1)
    selected = tf.gather(tf.constant(scales, "float32"), winner)
    return {
        "channel_logits": stack,
        "selected_scale": selected,
        "relative_size": selected / tf.constant(unit, "float32"),
    }


def _plain_function(frozen, probabilities):
    """Logits, probabilities and channel logits of float images, for formats with one endpoint."""
    tf = _tensorflow()
    module = tf.Module()

    def serve(images):
        outputs = frozen(images)
        return {**_scores(outputs, probabilities), "channel_logits": outputs["channel_logits"]}

    spec = tf.TensorSpec(frozen.inputs[0].shape, "float32", name="images")
    module.serve = tf.function(serve, input_signature=[spec])
    return module, module.serve.get_concrete_function()


def _litert_runner(path):
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        Interpreter = _tensorflow().lite.Interpreter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own says that it will move to ai_edge_litert
        runner = Interpreter(str(path)).get_signature_runner()
    return lambda images: runner(images=images)["logits"]


def _unit_scale(frozen, scales, training_size, images):
    """sigma_0 over size, from the scales that are selected on images of a known size."""
    training_size = check_positive("training_size", training_size)
    _, height, width, channels = frozen.inputs[0].shape
    if images is None and channels == 1:
        digits = load_embedded_digits().x_test[:_REFERENCE_DIGITS]
        images = rescale_images(digits, training_size, (height or 112, width or 112))[..., None]
    images = np.asarray(images, "float32")
    if not images.size or not frozen.inputs[0].shape.is_compatible_with(images.shape):
        raise ValueError(
            "`reference_images` must be images as the network takes them, "
            f"{tuple(frozen.inputs[0].shape)}. Received: shape {images.shape}"
        )
    selected = [
        _selection(frozen(images[i : i + 50]), scales, 1.0)["selected_scale"]
        for i in range(0, len(images), 50)
    ]
    return float(np.median(np.concatenate(selected))) / training_size


def _check_equal(model, run, what: str) -> None:
    """Raise unless `run` gives the model's logits, on a batch and on a single image."""
    shape = [size or 32 for size in model.input_shape[1:]]
    images = np.random.default_rng(0).uniform(-0.76, 0.76, (3, *shape)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(images, training=False))
    for batch in (slice(None), slice(1)):
        difference = np.abs(np.asarray(run(images[batch])) - expected[batch]).max()
        # Written so that NaN fails.
        if not difference <= TOLERANCE * max(1.0, np.abs(expected).max()):
            raise ValueError(
                f"The logits of the {what} differ from the model's by {difference:.2g}, more "
                f"than {TOLERANCE:g}. Nothing was written."
            )


def _check_folder(path, overwrite: bool) -> Path:
    path = Path(path).expanduser()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
    if not path.is_dir() or {file.name for file in path.iterdir()} - _SAVED_MODEL_FILES:
        raise FileExistsError(f"{path} exists and is not just a SavedModel. Choose another `path`.")
    if not overwrite:
        raise FileExistsError(f"{path} exists. Pass overwrite=True to replace it.")
    return path


def _check_file(path) -> Path:
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"`path` must be a file. Received: the folder {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
