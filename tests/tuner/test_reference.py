"""What candidates are judged by: ONNX Runtime's value of each operator that can be tuned."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.devices.opencl import open_device
from codl.ir.ops import Activation, ActivationKind, Epilogue, ResidualOrder
from codl.tuner.reference import compute_reference, relative_error
from codl.tuner.trial import Trial
from codl.tuner.workload import find_shapes
from tests.catalog.nodes import NODES, Sample
from tests.catalog.test_box_rows import SAMPLES
from tests.conftest import CHOSEN
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES

DEVICE = CHOSEN.split(",")[0] if CHOSEN not in {"", "all"} else "cpu"
JUDGED = {
    **NODES,
    **{name: SAMPLES[name] for name in ("pool", "unary", "binary", "affine", "concat", "softmax-inner")},
}


@pytest.mark.parametrize("case", JUDGED.values(), ids=JUDGED)
def test_chosen_kernels_compute_the_reference(case: Sample) -> None:
    (shape,) = find_shapes([case.graph])
    rng = np.random.default_rng(0)
    constants = {name: rng.standard_normal(v.shape, np.float32) for name, v in case.graph.constants.items()}
    for name, value in constants.items():
        shape.graph.constants[name][...] = value
    device = open_device(DEVICE)
    trial = Trial(shape.graph, device)
    expected = compute_reference(trial.graph, trial.feeds)

    assert expected is not None
    selection = choose(case.node, case.graph, device.info)
    assert relative_error(trial.compute(selection), expected) <= selection.implementation.tolerance


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues_are_part_of_the_reference(epilogue: Epilogue) -> None:
    graph, feeds, expected = build(Case(image=(4, 5), inputs=6, outputs=7, epilogue=epilogue))

    found = compute_reference(graph, feeds)

    assert found is not None
    assert relative_error(found, expected) <= 1e-6


def test_what_has_no_form_in_onnx_has_no_reference() -> None:
    case = SAMPLES["row-moments"]
    feeds = {name: np.zeros(case.graph.shape(name), np.float32) for name in case.graph.inputs}

    assert compute_reference(case.graph, feeds) is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf], ids=str)
def test_a_value_that_is_no_number_is_infinitely_wrong(wrong: float) -> None:
    value = np.ones((2, 2), np.float32)
    value[0, 1] = wrong

    assert relative_error(value, np.ones((2, 2), np.float32)) == float("inf")
    assert relative_error(np.ones(3, np.float32), np.ones(4, np.float32)) == float("inf")


def test_names_of_a_model_do_not_collide_with_the_references() -> None:
    clip = Epilogue(activation=Activation(kind=ActivationKind.CLIP, alpha=0.0, beta=6.0))
    graph, feeds, expected = build(Case(image=(3, 3), inputs=2, outputs=2, epilogue=clip))

    assert clip.residual is ResidualOrder.NONE
    found = compute_reference(graph, feeds)
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-6)
