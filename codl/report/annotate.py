"""A model with what a plan decided in each node's metadata, which viewers such as Netron show."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from codl.errors import ModelError
from codl.files import read_file
from codl.limits import DEFAULT_LIMITS
from codl.outputs import write_output
from codl.report.inspection import Inspection, Operator
from codl.report.perfetto import describe_decision

PREFIX = "codl."


def annotate_model(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    inspection: Inspection,
    outputs: Mapping[str, str],
) -> int:
    """Write a copy of a model with decisions in its nodes, and return how many nodes have one.

    Weights in files next to the model are copied when the copy is in another folder.

    Args:
        source: ONNX file.
        target: The copy.
        inspection: What was decided.
        outputs: Name of a tensor in the model -> the operator that computes it.

    Raises:
        ModelError: A file cannot be read or written, or the copy would replace the model.
    """
    source, target = Path(source), Path(target)
    try:
        if target.exists() and target.samefile(source):
            raise ModelError(f"{target}: got the model itself as its copy, expected another file")
        model = onnx.ModelProto.FromString(read_file(source, most_bytes=DEFAULT_LIMITS.model_bytes))
        count = _annotate_nodes(model, inspection, outputs)
        for name in sorted(_list_external(model)):
            _copy_beside(name, source.parent, target.parent)
        write_output(target, model.SerializeToString())
    except OSError as error:
        raise ModelError(
            f"{error.filename or target}: got {error.strerror or error}, expected a file to read or write"
        ) from error
    return count


def _annotate_nodes(model: Any, inspection: Inspection, outputs: Mapping[str, str]) -> int:
    operators = {operator.name: operator for operator in inspection.operators}
    found = find_operators(model.graph.node, {t: operators[n] for t, n in outputs.items() if n in operators})
    for node, operator in found:
        kept = [entry for entry in node.metadata_props if not entry.key.startswith(PREFIX)]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        told = {"operator": operator.name, **describe_decision(operator, inspection)}
        for key, value in told.items():
            entry = node.metadata_props.add()
            entry.key, entry.value = PREFIX + key, value
    return len(found)


def find_operators(nodes: Any, known: Mapping[str, Operator]) -> list[tuple[Any, Operator]]:
    """Return the nodes of a model with the operator that each became, or became part of.

    A node whose output no operator computes was fused into what reads it: a batch norm into a convolution, an
    activation into what follows. What was folded away becomes part of nothing.
    """
    readers: dict[str, list[Any]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    owner: dict[str, Operator] = dict(known)
    found: dict[int, Operator] = {}
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        mine = [owner[name] for name in node.output if name in owner]
        if not mine:
            behind = [
                found_one for name in node.output for found_one in _find_behind(readers.get(name, ()), owner)
            ]
            mine = behind[:1] if node.input and len({o.name for o in behind}) == 1 else []
        if mine:
            found[place] = mine[0]
            for name in node.output:
                owner.setdefault(name, mine[0])
    return [(nodes[place], found[place]) for place in sorted(found)]


def _find_behind(readers: Any, owner: Mapping[str, Operator]) -> list[Operator]:
    return [owner[name] for node in readers for name in node.output if name in owner]


def _list_external(model: Any) -> set[str]:
    """Return the files next to the model that hold weights."""
    return {
        entry.value
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _copy_beside(name: str, source: Path, target: Path) -> None:
    origin, copy = source / name, target / name
    inside = origin.resolve().is_relative_to(source.resolve())
    if not inside or (copy.exists() and copy.samefile(origin)):
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(origin, copy)
