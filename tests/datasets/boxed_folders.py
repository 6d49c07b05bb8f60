"""Small folders of annotated pictures, 60 pixels wide and 40 high, in three formats."""

import json

import numpy as np

_VOC = """<annotation><filename>{stem}.png</filename>
<size><width>{width}</width><height>{height}</height><depth>3</depth></size>{objects}</annotation>"""
_OBJECT = """<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>
<ymax>{}</ymax></bndbox></object>"""


def write_picture(file, size=(60, 40), rows=(), **options):
    """A grey picture with a bright square in each box."""
    from PIL import Image

    pixels = np.full(size[::-1], 40, "uint8")
    for _, x1, y1, x2, y2 in rows:
        if np.isfinite([x1, x2]).all():
            pixels[max(0, y1) : y2, max(0, x1) : x2] = 200
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file, **options)


def write_voc(folder, size=(60, 40), **images):
    (folder / "Annotations").mkdir(parents=True, exist_ok=True)
    for stem, rows in images.items():
        write_picture(folder / f"JPEGImages/{stem}.png", size, rows)
        objects = "".join(
            _OBJECT.format(name, x1 + 1, y1 + 1, x2, y2) for name, x1, y1, x2, y2 in rows
        )
        text = _VOC.format(stem=stem, objects=objects, width=size[0], height=size[1])
        (folder / f"Annotations/{stem}.xml").write_text(text)
    return folder


def write_coco(folder, size=(60, 40), **images):
    names = sorted({row[0] for rows in images.values() for row in rows}, reverse=True)
    content = {"images": [], "annotations": [], "categories": [{"id": 9, "name": "unused"}]}
    content["categories"] += [{"id": 10 + k, "name": name} for k, name in enumerate(names)]
    for number, (stem, rows) in enumerate(images.items()):
        write_picture(folder / f"images/{stem}.png", size, rows)
        about = {"id": number, "file_name": f"{stem}.png", "width": size[0], "height": size[1]}
        content["images"].append(about)
        for name, x1, y1, x2, y2 in rows:
            box = [x1, y1, x2 - x1, y2 - y1]
            kind = 10 + names.index(name)
            content["annotations"].append({"image_id": number, "category_id": kind, "bbox": box})
    (folder / "annotations.json").write_text(json.dumps(content))
    return folder


def write_yolo(folder, size=(60, 40), **images):
    names = sorted({row[0] for rows in images.values() for row in rows}, reverse=True)
    (folder / "labels").mkdir(parents=True, exist_ok=True)
    (folder / "classes.txt").write_text("\n".join(names))
    width, height = size
    for stem, rows in images.items():
        write_picture(folder / f"images/{stem}.png", size, rows)
        lines = [
            f"{names.index(name)} {(x1 + x2) / 2 / width} {(y1 + y2) / 2 / height} "
            f"{(x2 - x1) / width} {(y2 - y1) / height}\n"
            for name, x1, y1, x2, y2 in rows
        ]
        (folder / f"labels/{stem}.txt").write_text("".join(lines))
    return folder
