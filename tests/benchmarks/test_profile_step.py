import profile_step
import pytest
from contest.tasks import Task


def test_profile_finds_every_kind_of_work():
    task = Task("matched", "training", (4, 4, 3), side=24, channels=2, batch=8)
    times, whole = profile_step.profile(task, steps=2)
    assert {kind for kind, _ in times} == set(profile_step.KINDS)
    assert all(value >= 0 for value in times.values())
    table = profile_step.describe(times, whole)
    assert all(f"| {kind} |" in table for kind in profile_step.KINDS)


@pytest.mark.parametrize(
    ("name", "operation", "kind"),
    [
        ("model/scale_channels/convolution_3", "Conv2D", profile_step.FORWARD),
        ("convolution_3", "Conv2D", profile_step.INPUTS),
        ("PartitionedCall_1/gradients/IdentityN_grad/Conv2D", "Conv2D", profile_step.INPUTS),
        ("gradient_tape/model/Conv2DBackpropFilter", "Conv2DBackpropFilter", profile_step.FILTERS),
        ("model/scale_channels/MatMul", "BatchMatMulV2", profile_step.PRODUCTS),
        ("model/re_lu/Relu", "Relu", profile_step.POINTS),
        ("adam/Square_1", "Square", profile_step.OPTIMIZER),
    ],
)
def test_kinds(name, operation, kind):
    assert profile_step.kind_of(name, operation) == kind


def test_bad_arguments_end_with_a_clear_error(capsys):
    with pytest.raises(SystemExit):
        profile_step.main(["--batch", "0"])
    assert "--batch must be at least 1" in capsys.readouterr().err
