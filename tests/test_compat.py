"""Programs written for onnxruntime run unchanged; codl gets along with other users of OpenCL."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import codl
from tests.processes import evaluate
from tests.session.models import scale_model
from tools.networks import build

SCRIPT = """
import numpy as np
import {module} as onnxruntime

onnxruntime.set_default_logger_severity(4)
onnxruntime.set_seed(1)
assert onnxruntime.get_device() in ("CPU", "GPU")
assert "CPUExecutionProvider" in onnxruntime.get_available_providers()

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.enable_mem_pattern = False
options.log_severity_level = 3
options.add_session_config_entry("session.disable_prepacking", "0")
session = onnxruntime.InferenceSession(
    path, sess_options=options, providers=["CPUExecutionProvider"], provider_options=[dict()]
)
assert session.get_providers()[-1] == "CPUExecutionProvider"
assert set(session.get_provider_options()) == set(session.get_providers())
assert isinstance(session.get_session_options(), onnxruntime.SessionOptions)
session.disable_fallback()

meta = session.get_modelmeta()
described = [
    (meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.version),
    (meta.graph_description, meta.custom_metadata_map),
    [(a.name, a.shape, a.type) for a in session.get_inputs()],
    [(a.name, a.shape, a.type) for a in session.get_outputs()],
]
name = session.get_inputs()[0].name
batch = np.random.default_rng(0).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
run_options = onnxruntime.RunOptions()
run_options.log_severity_level = 3
outputs = session.run([session.get_outputs()[0].name], {{name: batch}}, run_options)
outputs += session.run(None, {{name: np.asfortranarray(batch)}})
value = onnxruntime.OrtValue.ortvalue_from_numpy(batch)
outputs += [o.numpy() for o in session.run_with_ort_values(None, {{name: value}})]
binding = session.io_binding()
binding.bind_cpu_input(name, batch)
binding.bind_output(session.get_outputs()[0].name)
session.run_with_iobinding(binding)
outputs += binding.copy_outputs_to_cpu()
refused = []
wrong = [dict(), {{name: batch, "more": batch}}]
wrong += [{{name: other}} for other in (batch.astype(float), batch[0], batch[:, :2])]
for feeds in wrong:
    try:
        session.run(None, feeds)
    except Exception:
        refused.append(len(feeds))
"""


def play(module: str, path: Path) -> dict[str, Any]:
    """Return the variables of the script after it ran with a module in onnxruntime's place."""
    names: dict[str, Any] = {"path": str(path)}
    exec(compile(SCRIPT.format(module=module), f"script for {module}", "exec"), names)
    return names


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = build("mobilenet_v2", size=32, width=0.25)
    model.doc_string, model.domain, model.model_version = "a small one", "test", 3
    model.metadata_props.add(key="author", value="nobody")
    place = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(model, place)
    return place


def test_script_for_onnxruntime_runs_unchanged(path: Path) -> None:
    own, theirs = play("codl", path), play("onnxruntime", path)

    assert own["described"] == theirs["described"]
    assert own["refused"] == theirs["refused"] == [0, 2, 1, 1, 1]
    assert len(own["outputs"]) == len(theirs["outputs"]) == 4
    for value, reference in zip(own["outputs"], theirs["outputs"], strict=True):
        assert value.dtype == reference.dtype
        np.testing.assert_allclose(value, reference, rtol=1e-3, atol=1e-4)


def test_example_of_the_interface_runs(path: Path, tmp_path: Path) -> None:
    x = np.zeros((1, 3, 32, 32), np.float32)
    session = codl.InferenceSession(path)
    outputs = session.run(None, {"input": x})
    session.plan.save(tmp_path / "plan.json")
    session.close()
    options = codl.SessionOptions()
    options.devices = ["intel-cpu", "pocl-cpu"]
    options.planner = "even"
    options.max_chain_length = 8
    options.verify_plan = False
    options.enable_profiling = False
    options.intra_op_num_threads = 0

    with codl.InferenceSession(path, options) as other:
        again = other.run(None, {"input": x})
    options.plan = tmp_path / "plan.json"
    with codl.InferenceSession(path, options) as third:
        assert third.plan == codl.Plan.load(tmp_path / "plan.json")
    planned = codl.plan(path, devices=["intel-cpu", "pocl-cpu"], planner="even")

    np.testing.assert_allclose(outputs[0], again[0], rtol=1e-3, atol=1e-4)
    assert planned.devices == ("intel-cpu", "pocl-cpu")
    assert all(isinstance(info, codl.DeviceInfo) for info in codl.devices())


def own_names(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


NOT_MEANT = {
    "SessionOptions": {
        *("set_ep_context_data_read_func", "clear_ep_context_data_read_func"),
    },
    "RunOptions": {"add_active_adapter"},
    "OrtValue": {
        *("as_sparse_tensor", "ort_value_from_sparse_tensor", "from_dlpack"),
        "ortvalue_from_numpy_with_onnx_type",
    },
    "IOBinding": {"get_outputs_as_ortvaluevector"},
    "InferenceSession": {
        *("create_ortvalue_from_shape_and_type", "release_captured_graph", "run_with_ortvaluevector"),
        *("get_input_epdevices", "get_input_memory_infos", "get_output_memory_infos"),
        *("get_provider_graph_assignment_info", "get_tuning_results", "set_tuning_results"),
        "set_ep_dynamic_options",
    },
}
"""Members about devices, adapters and formats that onnxruntime has and codl does not."""
CLASSES = ("SessionOptions", "RunOptions", "OrtValue", "IOBinding", "InferenceSession", "NodeArg")


@pytest.mark.parametrize("name", [*CLASSES, "ModelMetadata", "GraphOptimizationLevel", "ExecutionMode"])
def test_members_of_onnxruntime_are_there(name: str) -> None:
    own, theirs = getattr(codl, name), getattr(onnxruntime, name)

    missing = own_names(theirs) - own_names(own) - NOT_MEANT.get(name, set()) - {"name", "value"}

    assert not missing


def test_every_name_of_onnxruntime_is_there() -> None:
    names = own_names(onnxruntime)

    assert names <= set(dir(codl))
    assert all(hasattr(codl, name) for name in names)
    with pytest.raises(AttributeError, match="module 'codl' has no attribute 'colour'"):
        getattr(codl, "colour")  # noqa: B009


def test_values_are_copied_between_each_other() -> None:
    source, target = (codl.OrtValue(np.full(2, value, np.float32)) for value in (1.0, 2.0))

    codl.copy_tensors([source], [target])

    assert target.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(codl.InputError, match="got 1 sources, expected 0"):
        codl.copy_tensors([source], [])


IN_ITS_PLACE = """
import json, sys
import codl
sys.modules["onnxruntime"] = codl
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, InvalidProtobuf, NoSuchFile

caught = []
for model, kind in ((b"no model", InvalidProtobuf), ("missing.onnx", NoSuchFile), ("", state.Fail)):
    try:
        onnxruntime.InferenceSession(model)
    except kind as error:
        caught.append(type(error).__name__)
session = onnxruntime.InferenceSession(bytes.fromhex(MODEL))
for feeds, kind in ((dict(), ValueError), (dict(x=[1.0], q=[1.0]), InvalidArgument), (None, TypeError)):
    try:
        session.run(None, feeds)
    except kind as error:
        caught.append(type(error).__name__)
try:
    raise codl.UnsupportedError
except _pybind_state.NotImplemented:
    caught.append(state.SessionOptions is codl.capi._pybind_state.SessionOptions)
print(json.dumps(caught))
"""


def test_clients_catch_errors_of_onnxruntime() -> None:
    code = f"MODEL = {scale_model().SerializeToString().hex()!r}\n{IN_ITS_PLACE}"

    caught = evaluate(code)

    assert caught[:3] == ["ProtobufError", "MissingFileError", "MissingFileError"]
    assert caught[3:] == ["InputError", "InputError", "InputTypeError", True]


@pytest.mark.parametrize("warm_up", ["block", "background"])
def test_clients_run_models_that_onnxruntime_simplifies(warm_up: str) -> None:
    graph = "agraph (float[2, 3] x) => (float[2, 3] y) { s = Shape(x) y = Reshape(x, s) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    code = f"""
import json, sys
import codl
sys.modules["onnxruntime"] = codl
import numpy, onnxruntime
session = onnxruntime.InferenceSession(bytes.fromhex({model.SerializeToString().hex()!r}))
print(json.dumps([session.run(None, dict(x=numpy.ones((2, 3), numpy.float32)))[0].tolist(), session.wait()]))
"""

    assert evaluate(code, CODL_WARM_UP=warm_up) == [[[1.0] * 3] * 2, True]


@pytest.mark.parametrize("name", ["SessionOptions", "RunOptions"])
def test_options_begin_as_in_onnxruntime(name: str) -> None:
    own, theirs = getattr(codl, name)(), getattr(onnxruntime, name)()

    for attribute in own_names(theirs) & own_names(own):
        value = getattr(theirs, attribute)
        if not callable(value):
            assert int_or_self(getattr(own, attribute)) == int_or_self(value), attribute


def int_or_self(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)


@pytest.mark.parametrize(
    "name", ["run", "run_with_ort_values", "run_with_iobinding", "run_async", "__init__"]
)
def test_parameters_are_named_as_in_onnxruntime(name: str) -> None:
    own, theirs = (
        list(inspect.signature(getattr(module.InferenceSession, name)).parameters)
        for module in (codl, onnxruntime)
    )

    assert own[: len(theirs) - 1] == theirs[: len(theirs) - 1]


def test_misspelt_options_are_seen() -> None:
    with pytest.raises(AttributeError):
        codl.SessionOptions().intra_op_threads = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        codl.RunOptions().stop = True  # type: ignore[attr-defined]


def test_entries_are_given_back() -> None:
    options, run_options = codl.SessionOptions(), codl.RunOptions()
    options.add_session_config_entry("a", "1")
    run_options.add_run_config_entry("b", "2")
    options.add_provider("CPUExecutionProvider", {})

    assert options.get_session_config_entry("a") == "1"
    assert run_options.get_run_config_entry("b") == "2"
    assert options.has_providers()
    assert not codl.SessionOptions().has_providers()
    for missing in (options.get_session_config_entry, run_options.get_run_config_entry):
        with pytest.raises(codl.InputError, match="'c'"):
            missing("c")


def test_custom_operators_are_refused() -> None:
    with pytest.raises(codl.UnsupportedError, match=r"ops\.so"):
        codl.SessionOptions().register_custom_ops_library("ops.so")


def test_adapters_are_refused() -> None:
    with pytest.raises(codl.UnsupportedError, match="adapter"):
        codl.RunOptions().add_active_adapter(object())


def test_functions_without_effect_can_be_called() -> None:
    codl.set_default_logger_severity(3)
    codl.set_default_logger_verbosity(1)
    codl.set_seed(1)
    codl.disable_telemetry_events()
    codl.enable_telemetry_events()
    codl.preload_dlls()
    codl.set_default_logger_callback(print)
    codl.set_global_thread_pool_sizes(1, 1)
    codl.create_and_register_allocator(None)
    codl.create_and_register_allocator_v2("CPUExecutionProvider", None, {})
    codl.register_execution_provider_library("name", "library.so")
    codl.unregister_execution_provider_library("name")
    session = codl.InferenceSession(scale_model().SerializeToString())
    session.set_providers(["CPUExecutionProvider"])
    session.enable_fallback()
    options = codl.SessionOptions()
    options.set_ep_context_data_read_func(print, 1 << 20)
    options.clear_ep_context_data_read_func()

    assert codl.get_all_providers() == codl.get_available_providers()
    assert codl.get_available_providers()[-1] == "CPUExecutionProvider"
    assert codl.get_device() == "CPU"


COEXISTENCE = """
import json, numpy as np, pyopencl as cl

def double():
    for platform in cl.get_platforms():
        for device in platform.get_devices():
            try:
                return double_on(cl.Context([device]))
            except cl.Error:
                pass  # the PoCL wheel builds nothing on processors newer than itself
    return None

def double_on(context):
    queue = cl.CommandQueue(context)
    values = np.arange(4, dtype=np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    program = cl.Program(context, "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }").build()
    program.twice(queue, (4,), None, buffer)
    cl.enqueue_copy(queue, values, buffer)
    return values.tolist()

def client():
    return double() if BEFORE else None

first = client()
import codl
session = codl.InferenceSession(bytes.fromhex(MODEL))
second = session.run(None, {"x": np.ones((1, 3), np.float32)})[0].tolist()
third = double()
fourth = session.run(None, {"x": np.ones((1, 3), np.float32)})[0].tolist()
session.close()
print(json.dumps([first or third, second, third, fourth, double()]))
"""


@pytest.mark.parametrize("before", [True, False])
def test_codl_works_beside_a_client_of_opencl(before: bool) -> None:
    code = f"BEFORE = {before}\nMODEL = {scale_model().SerializeToString().hex()!r}\n{COEXISTENCE}"

    first, second, third, fourth, fifth = evaluate(code)

    assert first == third == fifth == [0.0, 2.0, 4.0, 6.0]
    assert second == fourth == [[1.0, 2.0, 3.0]]
