"""One network at several scales, with shared weights."""

import copy
import weakref
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import (
    check_choice,
    check_image_shape,
    check_non_negative,
    check_positive,
    check_scales,
    check_surround,
    require,
)
from gdn_keras.layers._channels import Channels
from gdn_keras.layers._runner import Runner
from gdn_keras.layers._sampling import PAYS_TO_JIT, extend
from gdn_keras.layers._unknown_sizes import TensorPlan
from gdn_keras.layers.pooling import CentralPixel, ScalePooling
from gdn_keras.scale_space import DEFAULT_CONE, SAMPLINGS, Cost, Plan, PointGrid, dense_costs

_WIDEST = 100.0  # border, in units of sigma_0


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleChannels(keras.layers.Layer):
    """Runs one network of Gaussian derivative layers at several initial scales sigma_0.

    The layers' sigmas are relative: in the channel of sigma_0, a layer works at
    `sigma * sigma_0` pixels. All weights and normalization statistics are shared. A rescaled image
    therefore gives the same stack of channels, shifted along the scale axis (the paper's scale
    covariance), and pooling over it gives the same result (scale invariance).

    `sampling="dense"` is the paper to the letter: in each channel, every layer smooths the pixels
    of the image by depthwise convolutions with the discrete Gaussian, and applies its derivative
    stencils. `sampling="matched"` is the fast way: each layer is on a grid whose step is its own
    sigma, `sigma * sigma_0`, divided by `density`. All channels then run one and the same discrete
    network, so that covariance holds for it too, and coarse channels cost next to nothing. Weights
    belong to the sampling they were trained with.

    The network may end in a read-out, which each channel does on its own grid: `CentralPixel`
    (an object in the center), `keras.layers.GlobalMaxPooling2D` (an object anywhere) or
    `keras.layers.GlobalAveragePooling2D` (a texture), with layers that act on vectors after it.
    Without one, its outputs are maps, or scores at the points of the channels' last grids.

    Example:

    >>> derivatives = gdn_keras.layers.GaussianDerivative(10, sigma=1.0)
    >>> network = keras.Sequential([derivatives, gdn_keras.layers.CentralPixel()])
    >>> layer = gdn_keras.layers.ScaleChannels(network, scales=[1.0, 2.0, 4.0])
    >>> images = np.random.rand(2, 56, 56, 1)
    >>> layer(images).shape, layer.channels(images).shape
    ((2, 10), (2, 3, 10))

    Args:
        network: Sequential or functional model of `GaussianDerivative`, `GaussianSmoothing` and
            `ScaleBatchNormalization` layers, layers that act on each point alone (activations,
            dropout, `Dense`, 1x1 `Conv2D`, normalization of the last axis), merges (`Add`,
            `Concatenate`, ...), read-outs, and models of such layers. Where branches meet, those on
            finer grids are sampled on the coarsest one.
        scales: sigma_0 of the channels in pixels, in increasing order.
        pooling: "max", "average", "logsumexp", or `None` to return the stack of channels.
        sampling: "matched" or "dense".
        density: Grid points of a matched layer per sigma of that layer.
        cone: Where the center is read, matched layers are computed within this many standard
            deviations of the smoothing that is still to come. Feature maps are mirrored at the
            cone's end: the same weights with another cone, or read in another way, give other
            numbers.
        readout: Without a read-out layer: "map" for maps of the image's size, or "points" for what
            the last grids hold, [batch, points, features], not pooled; see `point_grids`.
        surround: Share of their height and width by which feature maps extend beyond the image on
            each side, for objects that reach its edge or go beyond it. The image is then continued
            with its edge pixels, and `boundary` is for feature maps only. For read-outs of the
            center, where it costs little, or of the maximum, where it costs as larger images do.
        border: How far the points of `readout="points"` go on beyond the image, in units of
            sigma_0. The image is then continued by the `boundary` rule: by its mirror image, in
            which an object that its edge cuts looks like a whole one.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: Images [batch, height, width, channels], in a TensorFlow graph of any size.
        training: Passed on to the layers.

    Output shape:
        [batch, features] with a read-out, else [batch, height, width, features]; without pooling,
        a scale axis after the batch axis. With `readout="points"`, [batch, points, features].
    """

    def __init__(
        self,
        network: keras.Model,
        scales: Sequence[float],
        pooling: str | None = "max",
        sampling: str = "matched",
        density: float = 1.0,
        cone: float = DEFAULT_CONE,
        readout: str = "map",
        surround: float = 0.0,
        border: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_jit = PAYS_TO_JIT
        require(isinstance(network, keras.Model), "network", "be a keras.Model", network)
        self.network = network
        self.scales = check_scales(scales)
        self.pooling = pooling
        self.sampling = check_choice("sampling", sampling, SAMPLINGS)
        self.density = check_positive("density", density)
        self.cone = check_positive("cone", cone)
        self.readout = check_choice("readout", readout, ("map", "points"))
        self.surround = check_surround(surround)
        self.border = check_non_negative("border", border)
        require(border <= _WIDEST, "border", f"be at most {_WIDEST:g}", border)
        self._pool = None if pooling is None else ScalePooling(pooling, dtype=self.dtype_policy)
        self._read()
        text = (
            "not be in another ScaleChannels layer, or files would lose what they share: call one "
            "layer twice, or take keras.models.clone_model(network)"
        )
        require(network not in _TAKEN, "network", text, network)
        _TAKEN.add(network)

    def _read(self) -> Runner:
        """The network as it is now, since its layers can be edited at any time."""
        runner = Runner(self.network)
        runner.check_inputs()
        _ = runner.smoothing
        if self.sampling == "matched":
            runner.check_steps(self.density, self.scales)
        has_maps = runner.has_maps
        if self.readout == "points" and (not has_maps or self.pooling is not None):
            raise ValueError(
                '`readout="points"` is for a network without a read-out layer, and points are not '
                f"pooled: set `pooling=None`. Received: pooling={self.pooling!r}, "
                f"network={self.network!r}"
            )
        averages = any(isinstance(x, keras.layers.GlobalAveragePooling2D) for x in runner.layers)
        text = (
            "be 0 for a network without a read-out, or one that averages over places: those are "
            "places of the image"
        )
        require(not (self.surround and (has_maps or averages)), "surround", text, self.surround)
        has_border = self.readout == "points" and self.sampling == "matched"
        require(has_border or not self.border, "border", "be 0 but for matched points", self.border)
        return runner

    @property
    def shared_layers(self) -> list[keras.Layer]:
        """The layers of the network in the order of their calls, those of nested models too."""
        return self._read().layers

    @property
    def has_maps(self) -> bool:
        """Whether the network ends on feature maps, without a read-out layer."""
        return self._read().has_maps

    def costs(self, shape: Sequence[int]) -> list[Cost]:
        """Multiply-adds of each tensor, for one image of a height, width and channels."""
        runner, (height, width, channels) = self._read(), shape
        rest = (height, width), self.scales, runner.features(channels)
        if self.sampling == "matched":
            return self._plan(runner, rest[0]).costs(*rest)
        return dense_costs(runner.nodes, runner.smoothing[1], *rest)

    def point_grids(self, shape: Sequence[Any]) -> tuple[PointGrid, ...]:
        """The last grid of each channel, for a height and width, which may be tensors in a graph.

        The points of `readout="points"` go channel by channel, the finest first, and row by row;
        `gdn_keras.detection.grid_points` gives their positions.
        """
        if self.sampling == "dense":
            return tuple(PointGrid(scale, 1.0, *shape) for scale in self.scales)
        return self._plan(self._read(), shape).point_grids(tuple(shape), self.scales)

    def _plan(self, runner: Runner, shape: Sequence[Any]) -> Plan:
        """The grids of matched channels, for images of a known size or of any."""
        known = all(isinstance(size, Integral) for size in shape)
        plan = Plan if known else TensorPlan
        rest = self.density, self.cone, self.surround, self.border
        return plan(runner.nodes, *runner.smoothing, *rest)

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self.name, input_shape, minimum=3)
        if not self.network.built:
            self.network.build((None, None, None, input_shape[-1]))
        self._features = self.network.input_shape[-1]
        check_image_shape(self.name, input_shape, channels=self._features)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        stack = self.channels(inputs, training)
        return stack if self._pool is None else self._pool(stack)

    def channels(self, inputs: Any, training: bool | None = None) -> Any:
        """The stack of scale channels, [batch, scale channels, ...], before pooling."""
        runner, image = self._read(), self._prepared(inputs)
        if self.sampling == "dense":
            stack = ops.stack(runner.run_dense(image, self.scales, training)[-1], axis=1)
            if self.readout == "map":
                return stack
            return ops.reshape(stack, (ops.shape(stack)[0], -1, stack.shape[-1]))
        outputs = self._run_matched(runner, image, training)[-1]
        if self.readout == "points":
            return outputs.points()
        return (outputs.in_pixels() if runner.has_maps else outputs).stacked()

    def layer_centers(self, inputs: Any) -> list[Any]:
        """What each layer with a scale of its own holds at the center, in inference.

        For each layer [batch, scale channels, features], as the next one takes it: after
        normalization and activation.
        """
        runner, image = self._read(), self._prepared(inputs)
        spacings, center = runner.spacings, CentralPixel()
        _, *others = (node for node in runner.nodes if node.sigma is not None)
        last = max(n for n, spacing in enumerate(spacings) if spacing is not None)
        ends = [*(node.inputs[0] for node in others), last]
        if self.sampling == "dense":
            tensors = runner.run_dense(image, self.scales, False)
            return [ops.stack([center(x) for x in tensors[n]], axis=1) for n in ends]
        states = self._run_matched(runner, image, False)
        return [states[n].map(center).stacked() for n in ends]

    def _prepared(self, inputs: Any) -> Any:
        if not self.built:
            self.build(inputs.shape)
        check_image_shape(self.name, inputs.shape, minimum=3, channels=self._features)
        image = ops.cast(inputs, self.compute_dtype)
        if self.sampling == "dense" and self.surround:
            for axis, size in zip((1, 2), ops.shape(image)[1:3], strict=True):
                if isinstance(size, int):
                    margin = round(self.surround * size)
                else:  # in a graph of TensorFlow
                    margin = ops.cast(ops.round(self.surround * ops.cast(size, "float32")), "int32")
                image = extend(image, axis, margin, "edge")
        return image

    def _run_matched(self, runner: Runner, image: Any, training: bool | None) -> list[Channels]:
        shape = ops.shape(image)[1:3]
        plan = self._plan(runner, shape)
        batches = plan.batches(shape, self.scales)
        return runner.run_matched(Channels((image,), plan, batches, training), training)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        batch, height, width, channels = input_shape
        runner = self._read()
        features = runner.features(channels)[-1]
        if self.readout == "points":
            known = None not in (height, width)
            grids = self.point_grids((height, width)) if known else ()
            return (batch, sum(g.rows * g.columns for g in grids) or None, features)
        stack = () if self.pooling else (len(self.scales),)
        return (batch, *stack, *((height, width) if runner.has_maps else ()), features)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": keras.saving.serialize_keras_object(self.network),
            "scales": list(self.scales),
            "pooling": self.pooling,
            "sampling": self.sampling,
            "density": self.density,
            "cone": self.cone,
            "readout": self.readout,
            "surround": self.surround,
            "border": self.border,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ScaleChannels":
        # Copied, since Keras takes apart the configuration of a functional model.
        network = keras.saving.deserialize_keras_object(copy.deepcopy(config["network"]))
        return cls(**{**config, "network": network})


# Networks that are in a layer.
_TAKEN: weakref.WeakSet[keras.Model] = weakref.WeakSet()
