"""What an exported network offers, in terms of its frozen graph."""

from collections.abc import Sequence
from typing import Any

from gdn_keras.export.freezing import require_tensorflow

PROBABILITIES = ("sigmoid", "softmax")


def make_endpoints(
    frozen: Any,
    scales: Sequence[float],
    unit: float,
    probabilities: str,
    class_names: Sequence[str] | None,
    raw_pixels: bool,
) -> tuple[Any, dict[str, Any]]:
    """The object to save as a SavedModel and its signatures.

    Args:
        frozen: As from `freeze`.
        scales: sigma_0 of the scale channels.
        unit: sigma_0 over size.
        probabilities: "sigmoid" or "softmax".
        class_names: Names of the classes, or `None`.
        raw_pixels: Whether the network knows what to do with raw pixels.
    """
    tf = require_tensorflow()
    shape = frozen.inputs[0].shape

    def network(images: Any) -> dict[str, Any]:
        return frozen(tf.cast(_checked(images, shape), "float32"))

    def serve(images: Any) -> dict[str, Any]:
        return scores(network(images), probabilities, class_names)

    def select(images: Any) -> dict[str, Any]:
        return selection(network(images), scales, unit)

    def serve_uint8(images: Any) -> dict[str, Any]:
        # [batch, height, width] gets a last axis of one; four axes stay as they are.
        outputs = network(tf.reshape(images, tf.concat([tf.shape(images), [1]], axis=0)[:4]))
        return {**scores(outputs, probabilities, class_names), **selection(outputs, scales, unit)}

    endpoints = {"serve": (serve, ("float32", "float16")), "scales": (select, ("float32",))}
    if raw_pixels:
        endpoints["serve_uint8"] = (serve_uint8, ("uint8",))
    module, signatures = tf.Module(), {}
    for name, (function, dtypes) in endpoints.items():
        spec = tf.TensorSpec(shape, dtypes[0], name="images")
        signatures[name] = tf.function(function).get_concrete_function(spec)
        # With an input signature, a loaded method would quietly cast NumPy arrays of another type;
        # with a shape, it would answer another one with a print of all pixels.
        method = tf.function(function)
        for dtype in dtypes:
            method.get_concrete_function(tf.TensorSpec(None, dtype, name="images"))
        setattr(module, name, method)
    if class_names is not None:
        names = tf.function(lambda: {"class_names": tf.constant(list(class_names))})
        signatures["class_names"] = names.get_concrete_function()
        module.class_names = names
    return module, {"serving_default": signatures["serve"], **signatures}


def plain_function(frozen: Any, probabilities: str) -> tuple[Any, Any]:
    """Logits, probabilities and channel logits of float images, for formats with one endpoint."""
    tf = require_tensorflow()
    module = tf.Module()

    def serve(images: Any) -> dict[str, Any]:
        outputs = frozen(images)
        return {**scores(outputs, probabilities), "channel_logits": outputs["channel_logits"]}

    spec = tf.TensorSpec(frozen.inputs[0].shape, "float32", name="images")
    module.serve = tf.function(serve, input_signature=[spec])
    return module, module.serve.get_concrete_function()


def scores(
    outputs: dict[str, Any], probabilities: str, class_names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Logits, probabilities and, where classes have names, the name of the most likely one."""
    tf = require_tensorflow()
    logits = outputs["logits"]
    result = {"logits": logits, "probabilities": getattr(tf.nn, probabilities)(logits)}
    if class_names is not None:
        result["class_name"] = tf.gather(tf.constant(list(class_names)), tf.argmax(logits, axis=1))
    return result


def selection(outputs: dict[str, Any], scales: Sequence[float], unit: float) -> dict[str, Any]:
    """The stack of scale channels, the scale of the winning one, and what size that is."""
    tf = require_tensorflow()
    stack = outputs["channel_logits"]
    winner = tf.argmax(tf.reduce_max(stack, axis=2), axis=1)
    selected = tf.gather(tf.constant(scales, "float32"), winner)
    return {
        "channel_logits": stack,
        "selected_scale": selected,
        "relative_size": selected / tf.constant(unit, "float32"),
    }


def _checked(images: Any, shape: Any) -> Any:
    """`images`, or an error that names the shape that they have and the one that they must have."""
    tf = require_tensorflow()
    # Signatures take any shape, whatever they declare, and the check would be optimised away as
    # always true, were it not for the placeholder.
    images = tf.compat.v1.placeholder_with_default(images, None, name="images")
    return tf.ensure_shape(images, shape)
