"""What does not depend on the images, computed once."""

from typing import Any

# Operations that matter to gradients only.
_PASSED_ON = {"Identity", "IdentityN", "StopGradient", "PreventGradient"}


def fold_constants(function: Any) -> Any:
    """The same concrete function, with what does not depend on its input computed now.

    That is the composition of kernels, the normalisation in them included.
    """
    import tensorflow as tf

    graph, (images,) = function.graph, function.inputs
    inputs_of, source = _depending_on(images, graph)
    operands = {t.name: t for inputs in inputs_of.values() for t in inputs if t is not images}
    with tf.compat.v1.Session(graph=graph) as session:
        constants = session.run(
            {name: t for name, t in operands.items() if t.op.name not in inputs_of}
        )
    whole = graph.as_graph_def()
    # Images of unknown size need functions: those of `gdn_keras.layers._unknown_sizes`.
    nodes = tf.compat.v1.GraphDef(versions=whole.versions, library=whole.library)
    for name, inputs in inputs_of.items():
        node = nodes.node.add()
        node.CopyFrom(graph.get_operation_by_name(name).node_def)
        node.input[:] = [tensor.name for tensor in inputs]
    outputs = {key: source.get(t.name, t).name for key, t in function.structured_outputs.items()}

    def folded(x: Any) -> dict[str, Any]:
        feeds = {name: tf.constant(value) for name, value in constants.items()}
        feeds[images.name] = x
        tensors = tf.graph_util.import_graph_def(nodes, feeds, list(outputs.values()), name="")
        return dict(zip(outputs, tensors, strict=True))

    spec = tf.TensorSpec(images.shape, images.dtype, name="images")
    return tf.function(folded).get_concrete_function(spec)


def _depending_on(images: Any, graph: Any) -> tuple[dict[str, list], dict[str, Any]]:
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
