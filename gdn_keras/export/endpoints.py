"""What a SavedModel offers, as TensorFlow functions whose weights are constants."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from gdn_keras.models import scale_channels_of, with_channels

Endpoints = dict[str, Any]


def detector_endpoints(detector: Any) -> Endpoints:
    """`detect`, from uint8 images of any size to boxes and names, and what is known of both."""
    names = ["", *detector.class_names]  # padding has the label -1
    spec = _images("uint8", [None, None, None, detector.network.input_shape[-1]])
    with _short_names(detector):
        frozen = _frozen(detector, detector.detect, spec)

    def detect(images: Any) -> dict[str, Any]:
        found = frozen(images)
        return {**found, "names": tf.gather(tf.constant(names), found["labels"] + 1)}

    facts = {name: getattr(detector, name) for name in ("class_names", "size_range")}
    return {"detect": _traced(detect, spec), **_constants(facts)}


def classifier_endpoints(model: keras.Model, unit: float, probabilities: str) -> Endpoints:
    """`serve`, `scales`, and what a preprocessor and names allow; `unit` is sigma_0 over size."""
    shape = [None, *model.input_shape[1:]]
    scales = tf.constant(scale_channels_of(model).scales, "float32")
    names = getattr(model, "class_names", None)
    both = with_channels(model)
    frozen = _frozen(both, lambda images: both(images, training=False), _images("float32", shape))

    def network(images: Any) -> list[Any]:
        # Signatures take any shape, whatever they declare, and this check of it would be optimized
        # away as always true, were it not for the placeholder.
        images = tf.compat.v1.placeholder_with_default(images, None, name="images")
        return frozen(tf.cast(tf.ensure_shape(images, shape), "float32"))

    def scores(logits: Any) -> dict[str, Any]:
        found = {"logits": logits, "probabilities": getattr(tf.nn, probabilities)(logits)}
        if names is not None:
            found["class_name"] = tf.gather(tf.constant(names), tf.argmax(logits, axis=1))
        return found

    def selection(stack: Any) -> dict[str, Any]:
        selected = tf.gather(scales, tf.argmax(tf.reduce_max(stack, axis=2), axis=1))
        sizes = {"selected_scale": selected, "relative_size": selected / unit}
        return {"channel_logits": stack, **sizes}

    def serve_uint8(images: Any) -> dict[str, Any]:
        # [batch, height, width] gets a last axis of one; four axes stay as they are.
        images = tf.reshape(images, tf.concat([tf.shape(images), [1]], axis=0)[:4])
        logits, stack = network(images)
        return {**scores(logits), **selection(stack)}

    # Methods take any shape, so that the check names a wrong one. TensorFlow prints all pixels.
    floats = _images("float32", shape), _images("float32")
    endpoints = {
        "serve": _traced(lambda images: scores(network(images)[0]), *floats, _images("float16")),
        "scales": _traced(lambda images: selection(network(images)[1]), *floats),
    }
    if getattr(model, "takes_pixels", False):
        endpoints["serve_uint8"] = _traced(serve_uint8, _images("uint8", shape), _images("uint8"))
    return endpoints if names is None else {**endpoints, **_constants({"class_names": names})}


def _constants(values: dict[str, Any]) -> Endpoints:
    """Endpoints without input."""
    endpoints = {}
    for name, value in values.items():
        endpoints[name] = tf.function(lambda name=name, value=value: {name: tf.constant(value)})
        endpoints[name].get_concrete_function()
    return endpoints


def _frozen(model: keras.Model, call: Callable[[Any], Any], spec: Any) -> Any:
    """One concrete function with constants for weights, which all endpoints and traces share."""
    weights = [(weight, keras.ops.convert_to_numpy(weight)) for weight in model.variables]

    def frozen(images: Any) -> Any:
        with keras.StatelessScope(weights):
            return tf.nest.map_structure(tf.identity, call(images))

    return tf.function(frozen, autograph=False).get_concrete_function(spec)


@contextlib.contextmanager
def _short_names(detector: Any) -> Iterator[None]:
    """Names of layers stand before those of all their operations: a third of the file."""
    layers = [detector, detector.network, *detector.network.layers]
    names = [layer.name for layer in layers]
    try:
        for k, layer in enumerate(layers):
            layer.name = f"l{k}"
        yield
    finally:
        for layer, name in zip(layers, names, strict=True):
            layer.name = name


def _images(dtype: str, shape: Any = None) -> Any:
    return tf.TensorSpec(shape, dtype, name="images")


def _traced(function: Callable[[Any], dict[str, Any]], *specs: Any) -> Any:
    """A TensorFlow function for these kinds of images; the first is that of its signature."""
    # With an input signature, a loaded method would quietly cast arrays of another type.
    traced = tf.function(function, autograph=False)
    for spec in specs:
        traced.get_concrete_function(spec)
    return traced
