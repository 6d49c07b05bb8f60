import profile_step
import pytest
import roofline
import tensorflow as tf
from contest.tasks import Task


def graph_of(function, *shapes):
    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    return tf.function(function).get_concrete_function(*specs).graph


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (tf.matmul, ((5, 4, 3), (5, 3, 2)), 2 * 5 * 4 * 3 * 2),
        (lambda a, b: tf.matmul(a, b, transpose_a=True), ((3, 4), (3, 2)), 2 * 4 * 3 * 2),
        (
            lambda x, k: tf.nn.conv2d(x, k, 1, "VALID"),
            ((2, 9, 8, 3), (3, 3, 3, 5)),
            2 * 2 * 7 * 6 * 9 * 3 * 5,
        ),
        (tf.add, ((4, 6), (6,)), 24),
        (lambda x: tf.transpose(x, (1, 0)), ((4, 6),), 0),
    ],
)
def test_arithmetic(function, shapes, flops):
    operations = dict(roofline.operations_of(graph_of(function, *shapes))).values()
    work = [roofline.work_of(op) for op in operations if op.type not in ("Placeholder", "Identity")]
    assert max(w.flops for w in work) == flops


def test_gradients_of_a_convolution_cost_as_much_as_itself():
    def gradients(x, kernel):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel))
            y = tf.nn.conv2d(x, kernel, 1, "VALID")
        return tape.gradient(y, (x, kernel))

    found = {
        op.type: roofline.work_of(op).flops
        for _, op in roofline.operations_of(graph_of(gradients, (2, 9, 8, 3), (3, 3, 3, 5)))
    }
    expected = 2 * 2 * 7 * 6 * 9 * 3 * 5
    assert found["Conv2DBackpropInput"] == found["Conv2DBackpropFilter"] == expected


def test_bytes_are_those_read_and_written():
    operations = dict(roofline.operations_of(graph_of(tf.matmul, (4, 3), (3, 2))))
    (work,) = (roofline.work_of(op) for op in operations.values() if op.type == "MatMul")
    assert work.bytes == 4 * (12 + 6 + 8)


def test_called_functions_are_looked_into():
    inner = tf.function(
        lambda x: tf.nn.relu(x), input_signature=[tf.TensorSpec((None, None), tf.float32)]
    )
    found = dict(roofline.operations_of(graph_of(lambda x: inner(x) + 1, (4, 6))))
    (relu,) = (op for name, op in found.items() if op.type == "Relu" and "/" in name)
    assert roofline.work_of(relu) == roofline.Work(24, 2 * 4 * 24)


def test_the_tighter_limit_is_the_bound():
    limits = roofline.Limits(flops=10.0, bytes=1.0)
    assert limits.bound(roofline.Work(100, 5)) == ("arithmetic", 10)
    assert limits.bound(roofline.Work(10, 5)) == ("memory", 5)


def test_every_kind_of_work_is_counted():
    task = Task("matched", "training", (4, 4, 3), side=24, channels=2, batch=8)
    found, whole = roofline.measure(task, steps=2)
    assert set(found) == set(profile_step.KINDS)
    for kind in (profile_step.FORWARD, profile_step.INPUTS, profile_step.FILTERS):
        assert found[kind][1].flops > 0 and found[kind][1].bytes > 0
    table = roofline.describe(found, whole, 8, roofline.measure_limits(100, 1))
    assert all(f"| {kind} |" in table for kind in found)
