"""A small network with points, for tests of what is built on them."""

import keras
from keras import ops

from gdn_keras.scale_space import PointGrid


@keras.saving.register_keras_serializable(package="gdn_keras_tests")
class TinyPoints(keras.layers.Layer):
    """Means over squares of twice the scale, and one dense layer, the same in all channels."""

    def __init__(self, features, scales=(1.0, 2.0, 4.0), **kwargs):
        super().__init__(**kwargs)
        self.features, self.scales = features, scales
        self.dense = keras.layers.Dense(features)

    def build(self, input_shape):
        self.dense.build((None, input_shape[-1]))

    def point_grids(self, shape):
        steps = [int(2 * scale) for scale in self.scales]
        return tuple(
            PointGrid(scale, float(step), *(n // step for n in shape))
            for scale, step in zip(self.scales, steps, strict=True)
        )

    def call(self, images):
        batch, *shape, _ = ops.shape(images)
        points = []
        for grid in self.point_grids(shape):
            means = ops.average_pool(images, int(grid.step), int(grid.step))
            points.append(ops.reshape(self.dense(means), (batch, -1, self.features)))
        return ops.concatenate(points, axis=1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], None, self.features)

    def get_config(self):
        return {**super().get_config(), "features": self.features, "scales": self.scales}


def tiny_network(features, channels=1, **options):
    images = keras.Input((None, None, channels))
    return keras.Model(images, TinyPoints(features, **options)(images))


def detected(detector, images):
    """What `predict` gives for images of one shape, without the time that making a graph takes."""
    return {name: ops.convert_to_numpy(x) for name, x in detector.detect(images).items()}
