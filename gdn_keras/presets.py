"""The paper's networks as plain data.

`parameters` are arguments of `gdn_keras.models.gaussian_derivative_network`.
"""

# sigma_0 = 2^(i/2), from 1/sqrt(2) to 8: the paper's eight scale channels.
PAPER_SCALES = tuple(2 ** (i / 2) for i in range(-1, 7))

_LARGE_SCALE = {"input_shape": (112, 112, 1), "classes": 10}
_DEFAULT = {**_LARGE_SCALE, "widths": (12, 16, 24, 32, 64)}
_LARGE = {**_LARGE_SCALE, "widths": (16, 24, 32, 48, 64)}

PRESETS = {
    "mnist": {
        "description": "One scale channel, for the original 28x28 MNIST (section 5).",
        "parameters": {
            "input_shape": (28, 28, 1),
            "widths": (12, 14, 16, 20, 64),
            "classes": 10,
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
    "default_single": {
        "description": "One scale channel of `default`; set `scales` to the training size.",
        "parameters": {**_DEFAULT, "scales": (1.0,)},
    },
    "large_single": {
        "description": "One scale channel of `large`; set `scales` to the training size.",
        "parameters": {**_LARGE, "scales": (1.0,)},
    },
}
