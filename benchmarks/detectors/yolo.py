"""An off-the-shelf detector on real pictures: YOLO11 nano beside the contestants of pictures.py.

    python benchmarks/detectors/yolo.py nuclei NUCLEI --output DIR

It needs an environment of its own, `pip install torch torchvision ultralytics '.[detection]'`.
Ultralytics is under the AGPL; nothing else here depends on it.

The network is trained from scratch, without pretrained weights, on the training pictures of
pictures.py, whole and stretched as there. Losses, optimizer, augmentation (mosaics, half to 1.5
times the size, mirroring, brightness) and decoding are the library's. The optimizer makes a step
for each batch of 4 pictures, not of 64 as it would, so that there are as many as in pictures.py;
each sees 20 times as many pixels as there. The epoch is chosen on held-out pictures. The same
code tests it, with and without the library's augmentation at test time, on pictures at their own
size.

Takes 42 minutes of one core, 12 times as long as ours. DIR/results.csv has rows as those of
pictures.py; a finished training in DIR is not done again.
"""

import argparse
import csv
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# TensorFlow and PyTorch's compiler each bring LLVM, and only in this order both can be loaded.
os.environ.setdefault("KERAS_BACKEND", "torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from detectors.pictures import TASKS, Find, add_rows, contestant, rows_of, stretched
from gdn_keras.datasets import BoxedImage, load_boxes, read_boxed_image
from gdn_keras.training.picture_precision import (
    MAGNIFICATIONS,
    Answer,
    best_threshold,
    matches,
    measure,
)

_NETWORK = "yolo11n.yaml"
_SIDE = 704  # pixels: the training pictures' longer side, in multiples of 32
_BATCH = 4
_CONFIDENCE = 0.05
_MOST = 400  # detections in a picture
Parts = dict[str, Sequence[BoxedImage]]
_METHODS = {"yolo": False, "yolo, augmented at test": True}


def offline(folder: Path) -> None:
    """Lets the library ask, send and install nothing, and keep its settings in a folder."""
    os.environ["YOLO_CONFIG_DIR"] = str(folder)
    os.environ["YOLO_OFFLINE"] = "true"
    os.environ["YOLO_AUTOINSTALL"] = "false"
    import torch
    from ultralytics import settings

    settings.update({"sync": False})
    torch.set_num_threads(1)


def in_color(pixels: np.ndarray) -> np.ndarray:
    """The stretched picture as the network takes it."""
    return np.repeat(np.rint(stretched(pixels)).astype("uint8"), 3, axis=-1)


def write_pictures(parts: Parts, names: Sequence[str], folder: Path) -> Path:
    """Pictures and boxes in YOLO's format; returns the file that lists them."""
    from PIL import Image

    for part, images in parts.items():
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for image in images:
            pixels, boxes = read_boxed_image(image, channels=1)
            Image.fromarray(in_color(pixels)).save(folder / f"images/{part}/{image.file.stem}.png")
            low, high = boxes.reshape(-1, 2, 2).swapaxes(0, 1) / image.shape[::-1]
            values = np.concatenate([(low + high) / 2, high - low], axis=1)
            rows = zip(image.labels, values, strict=True)
            lines = [f"{label} " + " ".join(f"{v:.6f}" for v in row) for label, row in rows]
            (folder / f"labels/{part}/{image.file.stem}.txt").write_text("\n".join(lines))
    listed = [f"path: {folder}", *(f"{part}: images/{part}" for part in parts), "names:"]
    file = folder / "data.yaml"
    file.write_text("\n".join([*listed, *(f"  {k}: {name}" for k, name in enumerate(names))]))
    return file


def train(parts: Parts, names: Sequence[str], run: Path, seed: int, epochs: int) -> float:
    """Trains into a folder, unless that was done; returns the seconds that it took."""
    from ultralytics import YOLO

    finished = run / "seconds.txt"
    if not finished.exists():
        with tempfile.TemporaryDirectory() as folder:
            data = write_pictures(parts, names, Path(folder))
            began = time.process_time()
            YOLO(_NETWORK).train(
                data=str(data),
                epochs=epochs,
                imgsz=_SIDE,
                batch=_BATCH,
                nbs=_BATCH,
                seed=seed,
                pretrained=False,
                amp=False,
                device="cpu",
                workers=0,
                max_det=_MOST,
                plots=False,
                project=str(run.parent.resolve()),
                name=run.name,
                exist_ok=True,
            )
        finished.write_text(f"{time.process_time() - began:.0f}\n")
    return float(finished.read_text())


def found_by(model: Any, augment: bool) -> Find:
    """What the network finds in one picture, at its size rounded up to a multiple of 32."""

    def find(pixels: np.ndarray) -> dict[str, np.ndarray]:
        [found] = model.predict(
            in_color(pixels),
            imgsz=[32 * -(-side // 32) for side in pixels.shape[:2]],
            conf=_CONFIDENCE,
            max_det=_MOST,
            augment=augment,
            device="cpu",
            verbose=False,
        )
        boxes = found.boxes.cpu().numpy()
        return {"boxes": boxes.xyxy, "labels": boxes.cls.astype(int), "confidence": boxes.conf}

    return find


def answer(find: Find, image: BoxedImage, magnification: float) -> Answer:
    """What is found in a magnified picture, best first."""
    pixels, boxes = read_boxed_image(image, magnification, channels=1)
    found = find(pixels)
    order = np.argsort(-found["confidence"], kind="stable")
    best, labels, confidence = (found[k][order] for k in ("boxes", "labels", "confidence"))
    match = matches(boxes, image.labels, best, labels)
    return Answer(boxes, image.labels, best, labels, confidence, match)


def rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains the network, and tests it in both ways."""
    offline(options.output / "settings")
    from ultralytics import YOLO

    task, seed = TASKS[options.task], options.seed
    pictures = contestant("ours", task, options.folder, seed)
    run = options.output / f"yolo_{seed}"
    parts = {"train": pictures.train, "val": pictures.held_out}
    seconds = train(parts, pictures.class_names, run, seed, options.epochs)
    tests = {
        test: (load_boxes(options.folder, part).images[: options.pictures], magnification)
        for test, (part, magnification) in task.tests.items()
    }
    model = YOLO(run / "weights" / "best.pt")
    parameters = sum(weights.numel() for weights in model.parameters())
    result = []
    for name, augment in _METHODS.items():
        find = found_by(model, augment)
        held_out = {m: [answer(find, i, m) for i in pictures.held_out] for m in MAGNIFICATIONS}
        threshold = best_threshold(held_out, _CONFIDENCE)
        measured = measure(held_out, pictures.class_names, threshold)["magnifications"]
        print(f"{name}, on held-out pictures:", *measured, sep="\n", flush=True)
        for row in rows_of(find, tests, task, pictures.class_names, 1, threshold):
            del row["class"]
            costs = {
                "training_seconds": round(seconds),
                "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
                "parameters": parameters,
                "threshold": round(threshold, 3),
            }
            result.append({"name": f"{options.task}: {name}", "seed": seed, **row, **costs})
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and tests what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("nuclei",))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=80, help="of 19 steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", type=int, help="test pictures of each kind")
    options = parser.parse_args(arguments)
    file = options.output / "results.csv"
    options.output.mkdir(parents=True, exist_ok=True)
    kept = list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []
    if (f"{options.task}: yolo", str(options.seed)) not in {(r["name"], r["seed"]) for r in kept}:
        add_rows(file, kept, rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
