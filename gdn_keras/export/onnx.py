"""Networks as ONNX files."""

import json
import os
from pathlib import Path

import keras

from gdn_keras.atomic_files import replacing
from gdn_keras.checks import check_choice
from gdn_keras.export.checks import check_equal, check_file
from gdn_keras.export.endpoints import PROBABILITIES, plain_function
from gdn_keras.export.freezing import freeze, in_float32, require_tensorflow


def export_onnx(
    model: keras.Model, path: str | os.PathLike, *, probabilities: str = "sigmoid"
) -> Path:
    """Writes an ONNX file: float32 `images` to `logits`, `probabilities` and `channel_logits`.

    The names of the classes are a JSON list under `class_names` in the file's metadata.

    Args:
        model: As in `export_saved_model`. What it takes, raw pixels included, the file takes.
        path: The file; one that exists is replaced.
        probabilities: As in `export_saved_model`.

    Returns:
        The file.

    Raises:
        ImportError: If tf2onnx or onnxruntime is missing.
        ValueError: If the file's logits, computed by onnxruntime, differ from the model's.
    """
    require_tensorflow()
    check_choice("probabilities", probabilities, PROBABILITIES)
    try:
        import onnxruntime
        import tf2onnx
    except ImportError as error:
        raise ImportError("Export to ONNX needs: pip install gdn_keras[onnx]") from error
    model, path = in_float32(model), check_file(path)
    _, function = plain_function(freeze(model), probabilities)
    inputs = {function.inputs[0].name: "images"}
    outputs = {tensor.name: key for key, tensor in function.structured_outputs.items()}
    proto, _ = tf2onnx.convert.from_graph_def(
        function.graph.as_graph_def(),
        input_names=list(inputs),
        output_names=list(outputs),
        tensors_to_rename={**inputs, **outputs},
        opset=17,
    )
    if hasattr(model, "class_names"):
        names = json.dumps(model.class_names)
        proto.metadata_props.add(key="class_names", value=names)
    with replacing(path) as temporary:
        temporary.write_bytes(proto.SerializeToString())
        session = onnxruntime.InferenceSession(temporary, providers=["CPUExecutionProvider"])
        check_equal(model, lambda x: session.run(["logits"], {"images": x})[0], "ONNX file")
    return path
