"""Puts the network of a finished run into saved_models, with a model card made of its results.

python tools/ship_model.py runs/large_size2 large_size2 --command "python examples/…"
python tools/ship_model.py runs/nuclei nuclei --command "…" --about "Finds cell nuclei …" \
    --limits "…"
python tools/ship_model.py runs/digits digit_detector --command "…" --tests empty.json clutter.json
python tools/ship_model.py --again  # exports all shipped models anew
"""

import argparse
import json
import shutil
from pathlib import Path

import keras
import numpy as np

from gdn_keras.export import export_saved_model
from gdn_keras.serving import load_predictor
from gdn_keras.training.classification_task import RESULTS
from gdn_keras.training.detection_task import AVERAGE_PRECISION
from gdn_keras.training.run_folder import MODEL, SAVED_MODEL, read_results

_LIMITS = {
    "mnist_large_scale": "digits off the center by more than a pixel or two of the original "
    "28×28, or rotated by more than about 15°, are not what it was trained for. Digits larger than "
    "the frame (size > 5.6) are cut off by it.",
    "gtsrb": "one German traffic sign in the middle of a photograph at its own resolution, its "
    "edge continued where it is smaller than the frame; not a detector. Below about 24 pixels "
    "signs have lost detail; above 95 they leave the frame.",
}
SHIPPED = Path(__file__).parents[1] / "saved_models"


def ship(run: Path, name: str, command: str) -> Path:
    """Copies model.keras, saved_model and accuracy.json, and writes README.md, the card."""
    results = read_results(run, RESULTS)
    folder = SHIPPED / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / MODEL, folder / MODEL)
    (folder / RESULTS).write_text(json.dumps(results) + "\n")
    shutil.rmtree(folder / SAVED_MODEL, ignore_errors=True)
    shutil.copytree(run / SAVED_MODEL, folder / SAVED_MODEL)
    (folder / "README.md").write_text(card(name, results, command))
    return folder


def ship_detector(
    run: Path, name: str, command: str, about: str, limits: str, tests: list[Path]
) -> Path:
    """The same for a detector, exported anew; `tests` of benchmarks/detectors/evaluate.py."""
    detector = keras.saving.load_model(run / MODEL, compile=False)
    results = json.loads((run / AVERAGE_PRECISION).read_text())
    if results["settings"].get("mnist_dir"):  # where it was here says nothing to others
        results["settings"]["mnist_dir"] = "MNIST"
    if tests:
        results["tests"] = [json.loads(file.read_text()) for file in tests]
    folder = SHIPPED / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / MODEL, folder / MODEL)
    (folder / AVERAGE_PRECISION).write_text(json.dumps(results) + "\n")
    export_saved_model(detector, folder / SAVED_MODEL)
    if "magnifications" in results:
        text = picture_card(name, results, command, about, limits, detector)
    else:
        text = detector_card(name, results, command)
    (folder / "README.md").write_text(text)
    return folder


def export_again() -> None:
    """Writes the SavedModels of all shipped models anew; units of size and probabilities stay."""
    for folder in sorted(path.parent for path in SHIPPED.glob(f"*/{MODEL}")):
        model = keras.saving.load_model(folder / MODEL, compile=False)
        options = {} if hasattr(model, "detect") else _old_options(model, folder / SAVED_MODEL)
        print(export_saved_model(model, folder / SAVED_MODEL, **options), flush=True)


def _old_options(model: keras.Model, folder: Path) -> dict:
    """Options that give the sizes and probabilities of an earlier export."""
    _, height, width, channels = model.input_shape
    noise = np.random.default_rng(0).integers(0, 256, (1, height, width, channels), "uint8")
    found = load_predictor(folder).predict(noise)
    sums_to_one = abs(found["probabilities"].sum() - 1) < 1e-5
    # The size that the noise seems to have stands for the size of the training images.
    return {
        "training_size": float(found["relative_size"][0]),
        "reference_images": noise,
        "probabilities": "softmax" if sums_to_one else "sigmoid",
    }


def picture_card(
    name: str, results: dict, command: str, about: str, limits: str, detector: keras.Model
) -> str:
    """The card of a detector of objects in pictures."""
    settings, (low, high) = results["settings"], results["size_range"]
    rows = [
        f"| {row['magnification']:.3g} | {row['objects']} | {row['ap50']:.3f} | {row['ap75']:.3f} "
        f"| {row['precision']:.3f} | {row['recall']:.3f} | {row['counted']:.2f} | "
        f"{100 * row['size_error']:.1f} |"
        for row in results["magnifications"]
    ]
    steps = settings["steps"] * settings["epochs"]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"{about} {results['parameters']} parameters, {_channels(settings['scales'])}. It "
            f"finds objects of {low:.0f} to {high:.0f} pixels.",
            "",
            f"- **Classes**: {', '.join(settings['class_names'])}.",
            f"- **Trained on** {settings['training_pictures']} pictures, at "
            f"{settings['resolution']:.2f} of their resolution, with "
            f"{_channels(settings['train_scales'])}: {steps} steps of {settings['batch_size']} "
            f"crops of {settings['crop']} pixels, seed {settings['seed']}.",
            f"- **Command**: `{command}`",
            f"- **Tested on** {settings['validation_pictures']} pictures that were held out, at "
            f"several magnifications, at confidence {detector.confidence_threshold:.3g}:",
            "",
            "| magnification | objects | AP at IoU 0.5 | at 0.75 | precision | recall | found "
            "/ true | size error, % |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"- **Limits**: {limits}",
            "",
            "```python",
            "import gdn_keras",
            "",
            f'detector = gdn_keras.Detector.from_preset("{name}")',
            "```",
            "",
            f"or, for files: `python examples/detect.py saved_models/{name}/model.keras "
            "picture.png`.",
            "",
        ]
    )


def detector_card(name: str, results: dict, command: str) -> str:
    """The card of a detector."""
    settings = results["settings"]
    trained = ", ".join(f"{size:g}" for size in settings["train_sizes"])
    frame, (height, width) = settings["train_frame"], settings["test_shape"]
    lines = [
        f"# {name}",
        "",
        f"Finds digits in grey pictures of any size: what, where and how large. "
        f"{results['parameters']} parameters, {_channels(settings['scales'])}.",
        "",
        f"- **Trained on** scenes of {frame}×{frame} pixels, {settings['background']} background, "
        f"with {settings['train_count'][0]} to {settings['train_count'][1]} digits of size "
        f"{trained} only (a digit of size 1 is 20 pixels high), with "
        f"{_channels(settings['train_scales'])}: {settings['steps'] * settings['epochs']} batches "
        f"of {settings['batch_size']}, seed {settings['seed']}.",
        f"- **Command**: `{command}`",
    ]
    for test in results["tests"]:
        everything = test["all"]
        lines += [
            f"- **Test**: {test['scenes']} scenes of {width}×{height}, {test['background']} "
            "background, digits of all sizes. All together: average precision "
            f"{everything['ap50']:.3f} at IoU 0.5 and {everything['ap75']:.3f} at 0.75. Size found "
            f"over size, both logarithmic: slope {test['slope']:.2f}.",
            "",
            "| size | digits | AP at IoU 0.5 | at 0.75 | COCO mean | size error, % | center error, "
            "% |",
            "|---|---|---|---|---|---|---|",
            *(
                f"| {row['size']:.3g} | {row['objects']} | {row['ap50']:.3f} | {row['ap75']:.3f} | "
                f"{row['ap']:.3f} | {100 * row['size_error']:.1f} | "
                f"{100 * row['center_error']:.1f} |"
                for row in test["sizes"]
            ),
            "",
        ]
    lines += [
        "Errors are medians over the digits that were found; of the center, in sides of the box.",
        "",
        "- **Limits**: light digits on a dark background, like those of MNIST.",
        "",
        "```python",
        "import gdn_keras",
        "",
        f'detector = gdn_keras.from_preset("{name}")',
        "```",
        "",
        f"or, for files: `python examples/detect.py saved_models/{name}/saved_model picture.png`.",
        "",
    ]
    return "\n".join(lines)


def card(name: str, results: dict, command: str) -> str:
    """The model card."""
    settings, counts = results["settings"], results["parameters"]
    sizes = [f"{row['size']:.3g}" for row in results["sizes"]]
    accuracies = [f"{100 * row['accuracy']:.2f}" for row in results["sizes"]]
    images, frame = settings["training_images"], settings["training_frame"]
    steps = -(-images // settings["batch_size"]) * settings["epochs"]
    trained = ", ".join(f"{size:g}" for size in settings["train_sizes"])
    training_scales = settings["train_scales"] or settings["scales"]
    changes = []
    if settings["augment"]:
        changes.append("small rotations, shears and shifts")
        if settings["augment"][1] < min(frame[:2]):
            changes.append("half of the images in smaller frames")
    if settings.get("contrast"):  # runs of earlier versions do not say
        changes.append(f"contrast changed by factors of up to {settings['contrast']:g}")
    augmented = ", ".join(changes) or "not augmented"
    lines = [
        f"# {name}",
        "",
        f"The `{settings['network']}` network, {counts['trainable']} parameters ({counts['paper']} "
        f"as the paper counts), {_channels(results['scales'])}, {settings['pooling']} pooling, "
        f"{settings['sampling']} sampling{_continued(settings)}.",
        "",
        f"- **Classes**: {', '.join(settings['class_names'])}.",
        f"- **Trained on** {images} images of `{settings['data']}`, {frame[0]}×{frame[1]}, at size "
        f"{trained} only, with {_channels(training_scales)}: {settings['epochs']} epochs, {steps} "
        f"steps of {settings['batch_size']}, {augmented}, seed {settings['seed']}.",
        f"- **Command**: `{command}`",
        f"- **Accuracy** on {_counts(results)} test images at each size:",
        "",
        f"| {results.get('size_name', 'test size')} | {' | '.join(sizes)} |",
        "|---" * (len(sizes) + 1) + "|",
        f"| % | {' | '.join(accuracies)} |",
        "",
    ]
    if results.get("selection_slope") is not None:
        lines += [
            f"- **Scale selection**: slope {results['selection_slope']:.2f} of log2(selected σ0) "
            "over log2(size); theory says 1. Images won by each channel are in "
            "accuracy.json.",
        ]
    lines += [
        f"- **Limits**: {_LIMITS[settings['data']]}",
        "",
        "```python",
        "import gdn_keras",
        "",
        f'model = gdn_keras.from_preset("{name}")',
        "```",
        "",
        "or, on image files: "
        f"`python examples/predict.py saved_models/{name}/saved_model picture.png`.",
        "",
    ]
    return "\n".join(lines)


def _counts(results: dict) -> str:
    """How many test images there are, at least and at most."""
    counts = [row["images"] for row in results["sizes"]]
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0])


def _continued(settings: dict) -> str:
    share = settings.get("surround")
    return f"; images continued by {share:g} of their height and width" if share else ""


def _channels(scales) -> str:
    if len(scales) == 1:
        return f"one scale channel, σ0 = {scales[0]:.3g}"
    return f"{len(scales)} scale channels, σ0 = {scales[0]:.3g} … {scales[-1]:.3g}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--command", help="the command of the run, for the card")
    parser.add_argument("--about", default="", help="what it finds, for a detector's card")
    parser.add_argument("--limits", default="", help="what it is not for, for a detector's card")
    text = "files of benchmarks/detectors/evaluate.py, for the card of a detector of digits"
    parser.add_argument("--tests", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    parser.add_argument("--again", action="store_true", help="export all shipped models anew")
    options = parser.parse_args()
    if options.again:
        export_again()
    elif None in (options.run, options.name, options.command):
        parser.error("give a run, a name and --command, or --again")
    else:
        arguments = options.run, options.name, options.command
        if (options.run / AVERAGE_PRECISION).exists():
            print(ship_detector(*arguments, options.about, options.limits, options.tests))
        else:
            print(ship(*arguments))
