"""What a user may ask of a session and of a run, under the names onnxruntime uses where it has them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from codl.errors import InputError, UnsupportedError
from codl.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from codl.plan.steps import Plan

WARM_UP_VARIABLE = "CODL_WARM_UP"


class GraphOptimizationLevel(IntEnum):
    """How much onnxruntime rewrites a graph; accepted without effect, codl always simplifies and fuses."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether onnxruntime runs branches at once; accepted without effect, the plan decides."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which order onnxruntime runs nodes; accepted without effect, the plan decides."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(slots=True, kw_only=True, eq=False)
class SessionOptions:
    """Options of an `InferenceSession`; set the attributes you need.

    An attribute that does not exist is an `AttributeError`, so that a misspelt one is seen.
    """

    devices: Sequence[str] | None = None
    """Device names or kinds; None for the defaults."""
    planner: str | None = None
    """`dynamic`, `greedy`, `even` or `single:<device>`; None: dynamic with profiles, else one device."""
    plan: "Plan | str | os.PathLike[str] | None" = None
    """Use this plan."""
    ratios: Sequence[float] | None = None
    """Share of each device under `even`; equal shares by default."""
    axes: Sequence[int] | None = None
    """Axes to cut along under `even`, most wanted first; H, OC, N by default."""
    max_chain_length: int = 8
    precision: str = "float32"
    """What factors of products may be rounded to: `float32`, `tf32` or `float16`; sums stay float32. GPUs
    with matrix units round, other devices and ONNX Runtime's share compute in float32. With `plan`, float32
    stands for the plan's own precision."""
    warm_up: str = field(default_factory=lambda: os.environ.get(WARM_UP_VARIABLE, "background"))
    """`background`: ONNX Runtime answers while kernels compile, so the last bits of results change when they
    are ready; `block`: the session waits for them. The variable `CODL_WARM_UP` sets the default."""
    verify_plan: bool = False
    """Measure the best few plans and every device alone once, and keep the fastest."""
    enable_profiling: bool = False
    """Write when each node ran on which device to a trace file at the end."""
    profile_file_prefix: str = "onnxruntime_profile_"
    """How the trace file's name begins; date, time and `.json` are added."""
    intra_op_num_threads: int = 0
    """Threads of the host fallback, 0 for its default; those of CPU drivers are fixed when they load."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds on what a model may ask for."""
    free_dimensions: dict[str, int] = field(default_factory=dict)
    """Values of the model's free dimensions by name; names that it does not have are ignored."""
    denoted_dimensions: dict[str, int] = field(default_factory=dict)
    """Values of the model's free dimensions by what they denote, such as `DATA_BATCH`."""
    initializers: dict[str, Any] = field(default_factory=dict)
    """Arrays that take the place of initializers, by name."""
    external_files: dict[str, bytes] = field(default_factory=dict)
    """Content of files of external data by their name in the model: these are not read."""
    config_entries: dict[str, str] = field(default_factory=dict)
    """Entries that `add_session_config_entry` was given."""
    enable_cpu_mem_arena: bool = True
    """Accepted without effect."""
    enable_mem_pattern: bool = True
    """Accepted without effect: memory is always planned ahead."""
    enable_mem_reuse: bool = True
    """Accepted without effect: memory is always shared by tensors that never live together."""
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    """Accepted without effect."""
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    """Accepted without effect."""
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    """Accepted without effect."""
    inter_op_num_threads: int = 0
    """Accepted without effect."""
    log_severity_level: int = -1
    """Accepted without effect: codl writes no log."""
    log_verbosity_level: int = 0
    """Accepted without effect: codl writes no log."""
    logid: str = ""
    """Accepted without effect: codl writes no log."""
    optimized_model_filepath: str = ""
    """Accepted without effect: no model is written."""
    use_deterministic_compute: bool = False
    """Accepted without effect: one plan always computes the same bits."""
    use_per_session_threads: bool = True
    """Accepted without effect."""
    _providers: dict[str, dict[str, str]] = field(default_factory=dict, init=False)

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Give a symbolic dimension of the model a value."""
        self.free_dimensions[dim_name] = int(dim_value)

    def add_free_dimension_override_by_denotation(self, dim_denotation: str, dim_value: int) -> None:
        """Give the symbolic dimensions that denote something, such as `DATA_BATCH`, a value."""
        self.denoted_dimensions[dim_denotation] = int(dim_value)

    def add_session_config_entry(self, config_key: str, config_value: str) -> None:
        """Keep an entry for `get_session_config_entry`; no entry has an effect."""
        self.config_entries[config_key] = config_value

    def get_session_config_entry(self, config_key: str) -> str:
        """Return an entry.

        Raises:
            InputError: There is none of this key.
        """
        return _find_entry(self.config_entries, config_key, "session option")

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Let a value take the place of the model's initializer of that name."""
        self.initializers[name] = np.asarray(ort_value)

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[Any]) -> None:
        """Let values take the place of initializers; files that they are stored in are not read."""
        for name, value in zip(names, ort_values, strict=True):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Let buffers take the place of files of external data; they are copied.

        Args:
            names: Of the files, as the model has them.
            buffers: Their content: bytes, or arrays of them.
            lengths: How many bytes of each buffer count.

        Raises:
            InputError: There are not as many names as buffers and lengths, or a buffer is too short.
        """
        if not len(names) == len(buffers) == len(lengths):
            raise InputError(
                f"external files: got {len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths, "
                "expected equal numbers"
            )
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            content = bytes(memoryview(buffer).cast("B")[: max(0, length)])
            if len(content) != length:
                raise InputError(
                    f"external file {name!r}: got a length of {length}, expected 0 to {len(content)}"
                )
            self.external_files[name] = content

    def set_ep_context_data_read_func(self, read_func: Any, max_data_size: int) -> None:
        """Accept a function; without effect, codl has no compiled contexts to read."""

    def clear_ep_context_data_read_func(self) -> None:
        """Accepted without effect."""

    def add_provider(self, provider: str, options: Mapping[str, str] | None = None) -> None:
        """Keep a name for `has_providers`; without effect, `devices` says where to run."""
        self._providers[provider] = dict(options or {})

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str]) -> None:
        """Accept onnxruntime's devices; without effect, `devices` says where to run."""

    def set_provider_selection_policy(self, policy: Any) -> None:
        """Accept a policy; without effect, `planner` decides."""

    def set_provider_selection_policy_delegate(self, delegate: Any) -> None:
        """Accept a function; without effect, `planner` decides."""

    def set_load_cancellation_flag(self, is_cancelled: bool) -> None:
        """Accept a flag; without effect, a model that is being loaded is loaded to the end."""

    def has_providers(self) -> bool:
        """Return whether `add_provider` was called."""
        return bool(self._providers)

    def register_custom_ops_library(self, path: str | os.PathLike[str]) -> None:
        """Refuse: codl runs ONNX's own operators only.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"{os.fspath(path)}: got a library of custom operators, expected a model of ONNX's own ones; "
            "run it with onnxruntime"
        )


@dataclass(slots=True, kw_only=True, eq=False)
class RunOptions:
    """Options of one run, as onnxruntime has them."""

    terminate: bool = False
    """A run that is started with it set fails at once; one that has begun goes on."""
    only_execute_path_to_fetches: bool = False
    """Accepted without effect."""
    log_severity_level: int = -1
    """Accepted without effect: codl writes no log."""
    log_verbosity_level: int = 0
    """Accepted without effect: codl writes no log."""
    logid: str = ""
    """Accepted without effect: codl writes no log."""
    config_entries: dict[str, str] = field(default_factory=dict)
    """Entries that `add_run_config_entry` was given."""

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """Keep an entry for `get_run_config_entry`; no entry has an effect."""
        self.config_entries[config_key] = config_value

    def add_active_adapter(self, adapter: Any) -> None:
        """Refuse: codl has no adapters of low rank.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"{type(adapter).__name__}: got an adapter, expected a model with its weights merged in; "
            "run it with onnxruntime"
        )

    def get_run_config_entry(self, config_key: str) -> str:
        """Return an entry.

        Raises:
            InputError: There is none of this key.
        """
        return _find_entry(self.config_entries, config_key, "run option")


def _find_entry(entries: Mapping[str, str], key: str, what: str) -> str:
    if key not in entries:
        raise InputError(f"{what}: got key {key!r} that was never added, expected one of {list(entries)}")
    return entries[key]
