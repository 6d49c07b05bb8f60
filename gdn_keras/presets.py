"""Networks as plain data, for `gdn_keras.from_preset`.

`parameters` are arguments of `gdn_keras.models.gaussian_derivative_network`; `weights` is the
folder of `saved_models` where trained weights are, with a README that says how well they do.
"""

# sigma_0 = 2^(i/2), from 1/sqrt(2) to 8: the paper's eight scale channels.
PAPER_SCALES = tuple(2 ** (i / 2) for i in range(-1, 7))
# One more below and one above, as the trained networks have them.
_WIDE_SCALES = tuple(2 ** (i / 2) for i in range(-2, 8))

_DIGITS = {"input_shape": (112, 112, 1), "num_classes": 10}
_DEFAULT = {**_DIGITS, "widths": (12, 16, 24, 32, 64)}
_LARGE = {**_DIGITS, "widths": (16, 24, 32, 48, 64)}

PRESETS = {
    "mnist": {
        "description": "One scale channel, for the original 28x28 MNIST (section 5).",
        "parameters": {
            "input_shape": (28, 28, 1),
            "widths": (12, 14, 16, 20, 64),
            "num_classes": 10,
            "scales": (0.9,),
        },
    },
    "default": {
        "description": "Eight scale channels, for MNIST Large Scale (section 6).",
        "parameters": {**_DEFAULT, "scales": PAPER_SCALES},
    },
    "large": {
        "description": "The larger network of section 6, eight scale channels.",
        "parameters": {**_LARGE, "scales": PAPER_SCALES},
    },
    **{
        f"default_size{size}": {
            "description": f"`default`, ten scale channels, trained on digits of size {size} only.",
            "parameters": {**_DEFAULT, "scales": _WIDE_SCALES},
            "weights": f"default_size{size}",
        }
        for size in (1, 2, 4)
    },
    "traffic_signs": {
        "description": "43 German traffic signs in colour photographs, nine scale channels, "
        "trained on signs of 28 to 40 pixels only.",
        "parameters": {
            "input_shape": (112, 112, 3),
            "widths": (24, 32, 48, 64, 96),
            "num_classes": 43,
            "scales": tuple(2 ** (i / 2) for i in range(-2, 7)),
        },
        "weights": "traffic_signs",
    },
    "digit_detector": {
        "description": "Finds digits of any size in grey pictures, trained on size 1 only.",
        "weights": "digit_detector",
    },
    "digit_detector_clutter": {
        "description": "The same on backgrounds of gradients, stripes, textures and noise.",
        "weights": "digit_detector_clutter",
    },
    "large_size2": {
        "description": "`large`, ten scale channels, trained on digits of size 2 only.",
        "parameters": {**_LARGE, "scales": _WIDE_SCALES, "surround": 0.5},
        "weights": "large_size2",
    },
}
