"""Ids of embeddings as they are fed: checked on the host, as kernels do not."""

from collections.abc import Mapping
from typing import Any

from codl.errors import InputError
from codl.ir.graph import Graph
from codl.ir.ids import find_tables


def count_rows(graph: Graph) -> dict[str, int]:
    """Return, of each input that is ids, the rows of the smallest table that they pick from."""
    return {
        name: min(graph.shape(table)[0] for table in tables)
        for name in graph.inputs
        if (tables := find_tables(name, graph))
    }


def check_ids(feeds: Mapping[str, Any], rows: Mapping[str, int]) -> None:
    """Raise `InputError` for an id without a row, or return silently.

    Args:
        feeds: Arrays by name.
        rows: What `count_rows` returns.

    Source:
        ONNX operator Gather: ids are within [-rows, rows - 1].
    """
    for name, count in rows.items():
        least, most = int(feeds[name].min()), int(feeds[name].max())
        if least < -count or most >= count:
            raise InputError(
                f"input {name!r}: got {least if least < -count else most}, expected ids from {-count} to "
                f"{count - 1}: the table has {count} rows; look at what makes them"
            )
