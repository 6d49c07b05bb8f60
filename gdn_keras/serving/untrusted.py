"""Endpoints of SavedModels from anywhere, without running whatever else is in the file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

Runner = Callable[[np.ndarray], dict[str, np.ndarray]]

DETECT, CLASSIFY, CLASS_NAMES, SIZE_RANGE = "detect", "serve_uint8", "class_names", "size_range"

# What networks are made of: nothing that could read or write a file, or run code.
OPERATIONS = (
    "Abs Add AddN AddV2 All Any ArgMax ArgMin Atan Atan2 AvgPool BatchMatMulV2 BiasAdd Bitcast "
    "BitwiseAnd BitwiseOr BroadcastTo Cast Ceil ClipByValue ConcatV2 Const Conv2D Cos Cumsum "
    "DepthwiseConv2dNative DivNoNan Einsum Elu EnsureShape Equal Erf Exp ExpandDims Expm1 Fill "
    "Floor FloorDiv FloorMod GatherNd GatherV2 Greater GreaterEqual Identity IdentityN IsFinite "
    "IsInf IsNan LeakyRelu Less LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr "
    "MatMul Max MaxPool Maximum Mean Min Minimum MirrorPad Mul Neg NoOp NonMaxSuppressionV5 "
    "NotEqual OneHot OnesLike Pack Pad PadV2 PartitionedCall Placeholder PlaceholderWithDefault "
    "Pow Prod Range Rank RealDiv Reciprocal Relu Relu6 Reshape ReverseV2 Round Rsqrt ScatterNd "
    "Select SelectV2 Selu Shape Sigmoid Sign Sin Size Slice Softmax Softplus Softsign Split SplitV "
    "Sqrt Square SquaredDifference Squeeze StatelessIf StatelessWhile StopGradient StridedSlice "
    "Sub Sum Tanh TensorScatterUpdate Tile TopKV2 Transpose Unpack Where While ZerosLike"
)


def load_endpoint(
    folder: Path,
) -> tuple[str, tuple[int | None, ...], Runner, dict[str, np.ndarray]]:
    """The endpoint for pixels of a SavedModel, if it is made of arithmetic only.

    A SavedModel is a program, and `tf.saved_model.load` runs whatever is in it. Here the operations
    that the endpoint needs are read as data, checked, and nothing else is loaded.

    Returns:
        Its name, the shape of its images, a function from uint8 images to its arrays, and which of
        "class_names" and "size_range" there are.

    Raises:
        ValueError, OSError: If there is no such endpoint, it does more, or the file is damaged.
    """
    content = (folder / "saved_model.pb").read_bytes()
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        meta = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]
    except Exception as error:  # protobuf has errors of its own
        raise ValueError(f"its saved_model.pb is damaged: {error}") from error
    name = next((known for known in (DETECT, CLASSIFY) if known in meta.signature_def), None)
    if name is None:
        raise ValueError(f"it has no endpoint `{DETECT}` or `{CLASSIFY}`, which takes pixels")
    outputs = {key: tensor.name for key, tensor in meta.signature_def[name].outputs.items()}
    constants = {
        key: meta.signature_def[key].outputs[key].name
        for key in (CLASS_NAMES, SIZE_RANGE)
        if key in meta.signature_def
    }
    needed = _needed_graph(meta.graph_def, [*outputs.values(), *constants.values()])
    functions = needed.library.function
    bodies = [needed.node, *(function.node_def for function in functions)]
    operations = {node.op for body in bodies for node in body}
    operations -= {function.signature.name for function in functions}
    if foreign := operations - set(OPERATIONS.split()):
        names = ", ".join(sorted(foreign))
        raise ValueError(f"it is refused, as it does more than arithmetic: {names}")
    # Optimizing a detector's graph takes longer than it saves.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    try:
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(needed, name="")
        images: Any = graph.get_tensor_by_name(meta.signature_def[name].inputs["images"].name)
        shape = tuple(images.shape)
        session = tf.compat.v1.Session(graph=graph, config=config)
        facts = session.run(constants)
    except Exception as error:  # damaged graphs fail in many ways
        raise ValueError(f"its graph is damaged: {error}") from error
    return name, shape, lambda pixels: session.run(outputs, {images: pixels}), facts


def _needed_graph(graph: Any, outputs: Iterable[str]) -> Any:
    """The part of a graph that some tensors need, with the functions that it calls."""
    functions = {function.signature.name: function for function in graph.library.function}
    nodes, names = {node.name: node for node in graph.node}, list(outputs)
    needed = type(graph)(versions=graph.versions)
    while names:
        if node := nodes.pop(names.pop().lstrip("^").partition(":")[0], None):
            needed.node.append(node)
            names += node.input
    waiting = list(needed.node)
    while waiting:
        node = waiting.pop()
        called = {node.op, *(value.func.name for value in node.attr.values())}
        called |= {function.name for value in node.attr.values() for function in value.list.func}
        for name in called & functions.keys():
            function = functions.pop(name)
            needed.library.function.append(function)
            waiting += function.node_def
    return needed
