"""The graph as text that the installed hipDNN reads, and the graph types it may not have kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from bench_run.engines.hipdnn.errors import check, foreign_errors, message_of
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.hipdnn_write import to_json
from bench_run.graph.operations import OPERATIONS
from bench_run.tensors.layout import storage_type

if TYPE_CHECKING:
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.graph.model import Graph

FORMER_KEYS = {
    "io_data_type": "io_type",
    "intermediate_data_type": "intermediate_type",
    "compute_data_type": "compute_type",
}
"""Graph-wide default types: today's key and the one of the first releases."""

SETTERS = {
    "set_io_data_type": "io_data_type",
    "set_intermediate_data_type": "intermediate_data_type",
    "set_compute_data_type": "compute_data_type",
}


def refuse_unwritable(graph: Graph) -> None:
    """Raises `UnsupportedGraphError` for what hipDNN's reader would take for something else
    (unknown spellings become the first of their list), and for types without a certain packing."""
    for node in graph.nodes:
        row = OPERATIONS.get(node.type)
        if row is None:
            raise UnsupportedGraphError(f"hipdnn: {node.label}: unknown node type")
        for parameter in row.parameters:
            value = node.attributes.get(parameter.name)
            if parameter.kind == "enum" and value is not None and value not in parameter.choices:
                raise UnsupportedGraphError(
                    f"hipdnn: {node.label}: no {parameter.name} {value!r}; "
                    f"known are {', '.join(map(str, parameter.choices))}"
                )
        for uid in (*node.inputs.values(), *node.outputs.values()):
            try:
                storage_type(graph.by_uid[uid])
            except UnsupportedGraphError as error:
                raise UnsupportedGraphError(f"hipdnn: {node.label}: {error}") from None


def graph_text(graph: Graph, *, former: bool = False) -> str:
    """The file's text in the form that the strict reader wants; with `former`, under the keys of
    the first releases."""
    data: dict[str, Any] = to_json(graph)
    if former:
        data = {FORMER_KEYS.get(key, key): value for key, value in data.items()}
    return orjson.dumps(data).decode()


def deserialise(library: Library, graph: Graph, *, keep_preference: bool) -> Any:
    """hipDNN's graph object. A preference of the file is left out where the user chose.

    The reader itself tells which keys it wants: text in today's form first; where it complains
    about a former key, or about the lack of one, the former form.
    """
    if not keep_preference:
        graph = replace(graph, preferred_engine_id=None)
    with foreign_errors("Graph.from_json"):
        native = library.module.Graph()
        error = native.from_json(graph_text(graph))
        if not error.is_good() and _wants_former(message_of(error)):
            native = library.module.Graph()
            error = native.from_json(graph_text(graph, former=True))
    check("Graph.from_json", error)
    _set_types(library, native, graph)
    return native


def _wants_former(message: str) -> bool:
    return any(f"{key}" in _words(message) for key in FORMER_KEYS.values())


def _words(message: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in message).split())


def _set_types(library: Library, native: Any, graph: Graph) -> None:
    """Some releases did not keep the default types of the text: say them again where possible."""
    types = getattr(library.module, "DataType", None)
    for setter, field in SETTERS.items():
        name = getattr(graph, field)
        value = None if name == "unset" else getattr(types, name.upper(), None)
        if value is not None and hasattr(native, setter):
            with foreign_errors(f"Graph.{setter}"):
                getattr(native, setter)(value)
