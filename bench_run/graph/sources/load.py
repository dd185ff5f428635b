"""Arguments of the command line → graphs: files, folders, globs, archives, sweeps.

Raises for what the user named and cannot be used: no such file, no graph in it, a result document.
What is broken inside of a file that is a graph is collected, so that it costs that graph only.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from bench_run.errors import GraphError
from bench_run.graph.format import fields
from bench_run.graph.format.fields import graph_notes
from bench_run.graph.format.hipdnn_json import parse_json, read_graph_object
from bench_run.graph.make.operators import with_operators
from bench_run.graph.sources.bundle import Bundle, read_bundle
from bench_run.graph.sources.files import FileSource, Task, claims_of_sweep, find, golden_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_run.graph.chain import PassContext
    from bench_run.graph.model import Graph


# hipDNN's sweeps: a template and a list of cases → graphs. See graphs/FORMAT.md.
#
# A value of the template that is a text of exactly the form ``${case.path}`` is replaced as a
# whole. Inside an object with an integer ``uid`` the path is looked up in the case's entry for that
# tensor first, then in the case's values; dims, strides and data types come from the entry alone.

_PLACEHOLDER = re.compile(r"\$\{case\.([^${}]+)\}")
_FROM_ENTRY_ONLY = ("dims", "strides", "data_type")
_MISSING = object()


@dataclass(frozen=True)
class SweepCase:
    """One case as the file says it, checked."""

    id: str
    values: dict[str, Any]
    tensors: dict[int, dict[str, Any]]
    patches: tuple[dict[str, Any], ...]
    metadata: dict[str, Any]
    golden_path: str
    """Relative to the folder of the template."""


@dataclass
class _Lookup:
    """Values of a sweep's case for the placeholders of its template, with a record of the used
    ones."""

    case: SweepCase
    where: str
    used: set[str] = field(default_factory=set)

    def find(self, path: str, uid: int | None, place: str) -> Any:
        entry = {} if uid is None else self.case.tensors.get(uid, {})
        value = _dig(entry, path)
        if value is _MISSING and not (uid is not None and path in _FROM_ENTRY_ONLY):
            value = _dig(self.case.values, path)
            self.used.add(path.partition(".")[0])
        if value is _MISSING:
            subject = f"{path} for tensor {uid}" if uid is not None else path
            raise GraphError(f"{self.where}: {place}", f"the case gives no {subject}")
        return value


def is_template(data: bytes) -> bool:
    return b'"${case.' in data


def read_cases(sweep: Any, where: str) -> tuple[SweepCase, ...]:
    """Return the cases of a ``sweep.json``."""
    data = fields.as_object(sweep, where)
    if data.get("version") != 1:
        raise fields.error(f"{where}:", "version", data.get("version"), "1")
    rows = fields.as_list(data.get("cases"), f"{where}:", "cases")
    cases = tuple(_read_case(row, f"{where}: cases[{i}]") for i, row in enumerate(rows))
    first: dict[str, int] = {}
    for index, case in enumerate(cases):
        if case.id in first:
            what = f"is {case.id!r}, as in cases[{first[case.id]}]; ids must differ"
            raise GraphError(f"{where}: cases[{index}].id", what)
        first[case.id] = index
    return cases


def _read_case(row: Any, where: str) -> SweepCase:
    data = fields.as_object(row, where)
    case_id = data.get("id")
    if not isinstance(case_id, str) or not case_id:
        raise fields.error(where, "id", case_id, "a text that is not empty")
    values = dict(fields.as_object(data.get("values", {}), where, "values"))
    entries = fields.as_list(values.pop("tensors", []), where, "values.tensors")
    patches = fields.as_list(data.get("tensor_patches", []), where, "tensor_patches")
    golden = fields.as_object(data.get("golden", {}), where, "golden").get("path")
    default = f"golden/{case_id}"
    path = default if golden is None else fields.as_text(golden, where, "golden.path")
    if path.startswith("/") or ".." in path.split("/"):
        raise fields.error(where, "golden.path", path, "a path inside of the sweep's folder")
    return SweepCase(
        id=case_id,
        values=values,
        tensors=dict(_with_uid(e, f"{where}.values.tensors[{i}]") for i, e in enumerate(entries)),
        patches=tuple(
            _with_uid(p, f"{where}.tensor_patches[{i}]")[1] for i, p in enumerate(patches)
        ),
        metadata=fields.as_object(data.get("metadata"), where, "metadata"),
        golden_path=path,
    )


def _with_uid(value: Any, where: str) -> tuple[int, dict[str, Any]]:
    data = fields.as_object(value, where)
    return fields.as_int(data.get("uid"), where, "uid"), data


def fill_in(template: Any, case: SweepCase, where: str) -> tuple[Any, tuple[str, ...]]:
    """Return the JSON value of one case's graph, and the values of the case that nothing asked
    for."""
    lookup = _Lookup(case, where)
    filled = _resolve(template, lookup, None, "")
    for patch in case.patches:
        tensors = filled.get("tensors", []) if isinstance(filled, dict) else []
        found = [t for t in tensors if isinstance(t, dict) and t.get("uid") == patch["uid"]]
        if not found:
            raise GraphError(where, f"tensor_patches: the template has no tensor {patch['uid']}")
        for tensor in found:
            tensor.update(fields.as_object(patch.get("set", {}), f"{where}: tensor_patches", "set"))
            for key in fields.as_list(
                patch.get("remove", []), f"{where}: tensor_patches", "remove"
            ):
                tensor.pop(key, None)
    return filled, tuple(sorted(set(case.values) - lookup.used))


def _resolve(value: Any, lookup: _Lookup, uid: int | None, place: str) -> Any:
    if isinstance(value, dict):
        inner = value["uid"] if type(value.get("uid")) is int else uid
        return {
            key: _resolve(item, lookup, inner, f"{place}.{key}" if place else key)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_resolve(item, lookup, uid, f"{place}[{i}]") for i, item in enumerate(value)]
    match = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else copy.deepcopy(lookup.find(match[1], uid, place))


def _dig(values: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(values, dict) or part not in values:
            return _MISSING
        values = values[part]
    return values


@dataclass(frozen=True)
class LoadedGraph:
    graph: Graph
    path: str
    """Path of the user: ``archive.tar.gz!member.json``, ``graph.template.json#case``."""
    sha256: str
    """Hash of `text`."""
    text: bytes
    """The file as it is; of a sweep's case the JSON that it was filled in to."""
    load_ns: int
    """Time from opening the file to the checked graph."""
    golden: Path | None = None
    """Folder with the graph's golden data."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata in ``NAME.meta.json`` or in the sweep's case: seed, tolerance, provenance."""
    bundle: Bundle = field(default_factory=Bundle)
    """Demands of these files."""
    notes: tuple[str, ...] = ()
    repeat: int = 1
    """Number of its occurrences in its suite or log."""
    init: tuple[str, ...] = ()
    """Fill of inputs by its source, in the words of ``--init``."""
    op: str | None = None
    """Op spec that it was made from, as it was given."""
    surroundings: PassContext | None = None
    """Layers that run before it in a pass of its pipeline, if it is measured so."""
    is_pass: bool = False
    """True if it is the pass itself, while others are measured as in one."""


@dataclass(frozen=True)
class LoadFailure:
    """A file that should be a graph, but is a broken one."""

    path: str
    sha256: str
    """Hash of its bytes; empty if they cannot be read."""
    error: GraphError


@dataclass(frozen=True)
class LoadReport:
    graphs: tuple[LoadedGraph, ...]
    failures: tuple[LoadFailure, ...]
    notes: tuple[str, ...]
    """Sentences on what was left out, and why."""
    sources: tuple[FileSource, ...] = ()
    """Hold unpacked golden data on disk: keep the report for as long as they are needed."""


class _NoGraphError(Exception):
    """The file is JSON, but no graph; the message says what it is."""


_Loaded = LoadedGraph | LoadFailure | str
"""A string is a note."""


NAMED = {".toml": "a suite (.toml)", ".py": "an operator (.py)"}


def load(arguments: Sequence[str]) -> LoadReport:
    """Return the graphs of all arguments in order, each file once. Raises `GraphError`."""
    loaded: list[_Loaded] = []
    sources: dict[int, FileSource] = {}
    seen: set[str] = set()
    for argument in arguments:
        found: list[_Loaded] = []
        again = 0
        for item in find(argument):
            if isinstance(item, str):
                found.append(item)
            elif (place := os.path.abspath(item.path)) in seen:
                again += 1
            else:
                seen.add(place)
                found += _load(item)
                sources[id(item.tree.source)] = item.tree.source
        if not again and all(isinstance(item, str) for item in found):
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            why = f" ({found[0]}{more})" if found else ""
            raise GraphError(argument, f"contains no graph{why}{_when_named(argument)}")
        loaded += found
    return LoadReport(
        tuple(item for item in loaded if isinstance(item, LoadedGraph)),
        tuple(item for item in loaded if isinstance(item, LoadFailure)),
        tuple(item for item in loaded if isinstance(item, str)),
        tuple(source for source in sources.values() if source.keeper is not None),
    )


def _when_named(folder: str) -> str:
    """Return a hint if the folder holds files that are read only where they are named."""
    if not os.path.isdir(folder):
        return ""
    found = {os.path.splitext(name)[1] for name in os.listdir(folder)}
    kinds = [what for suffix, what in NAMED.items() if suffix in found]
    return f"; {' or '.join(kinds)} runs when it is named" if kinds else ""


def _load(task: Task) -> Iterator[_Loaded]:
    if task.case_list is not None:
        yield from _load_sweep(task, task.case_list)
        return
    try:
        item = _load_graph(task)
    except _NoGraphError as error:
        if task.named:
            raise GraphError(task.path, f"is {error}") from error
        yield f"{task.path} is {error}, left out"
        return
    if task.named and isinstance(item, LoadFailure) and not item.sha256:
        raise item.error
    yield item


def _load_graph(task: Task) -> LoadedGraph | LoadFailure:
    source, begin_ns = task.tree.source, time.perf_counter_ns()
    digest = ""
    try:
        text = source.read(task.name)
        digest = hashlib.sha256(text).hexdigest()
        value = parse_json(text, task.path)
        what = _other_kind(value)
        if what is not None:
            raise _NoGraphError(what)
        if is_template(text):
            raise _NoGraphError("a sweep template, not a graph: its values are placeholders")
        graph = with_operators(read_graph_object(value, task.path), task.path)
        load_ns = time.perf_counter_ns() - begin_ns
        stem = task.name.removesuffix(".json")
        metadata = _beside(task, f"{stem}.meta.json") or {}
        claims, claims_at = f"{stem}.support.json", source.show(f"{stem}.support.json")
        place = source.show(f"{stem}.meta.json")
        bundle = read_bundle(metadata, place, _beside(task, claims), claims_at)
    except GraphError as error:
        return LoadFailure(task.path, digest, error)
    return LoadedGraph(
        graph=graph,
        path=task.path,
        sha256=digest,
        text=text,
        load_ns=load_ns,
        golden=golden_folder(source, task.name, task.tree.stems),
        metadata=metadata,
        bundle=bundle,
        notes=graph_notes(graph),
    )


def _beside(task: Task, name: str) -> Any:
    """Return the object in another file of the graph's folder; None without such a file."""
    if name not in task.tree.names:
        return None
    place = task.tree.source.show(name)
    found = parse_json(task.tree.source.read(name), place)
    if not isinstance(found, dict):
        raise GraphError(place, "is not an object")
    return found


_OTHER_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("a result document: bench-compare reads it", lambda value: "schema_version" in value),
    ("the case list of a sweep template", lambda value: "cases" in value),
    ("a bundle's support claims", lambda value: "claims" in value),
    ("a bundle's metadata", lambda value: "format_version" in value or "generator" in value),
)


def _other_kind(value: Any) -> str | None:
    """Return the kind of a JSON value that is not a graph."""
    if not isinstance(value, dict):
        return "not an operation graph: expected an object"
    missing = [key for key in ("tensors", "nodes") if key not in value]
    if not missing:
        return None
    known = (what for what, is_kind in _OTHER_KINDS if is_kind(value))
    return next(known, f"not an operation graph: it has no {' and no '.join(missing)}")


def _load_sweep(task: Task, case_list: str) -> Iterator[_Loaded]:
    """Yield a graph for each case; what is wrong with one costs that one."""
    source = task.tree.source
    cases_path = source.show(case_list)
    try:
        template = parse_json(source.read(task.name), task.path)
        cases = read_cases(parse_json(source.read(case_list), cases_path), cases_path)
        claims_path = claims_of_sweep(case_list)
        claims = _beside(task, claims_path), source.show(claims_path)
    except GraphError as error:
        yield LoadFailure(task.path, "", error)
        return
    for case in cases:
        yield _load_case(task, template, case, claims)


def _load_case(
    task: Task, template: Any, case: SweepCase, claims: tuple[Any, str]
) -> LoadedGraph | LoadFailure:
    path, begin_ns = f"{task.path}#{case.id}", time.perf_counter_ns()
    digest = ""
    try:
        value, unused = fill_in(template, case, path)
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(text).hexdigest()
        graph = with_operators(read_graph_object(value, path), path)
        bundle = read_bundle(case.metadata, path, *claims, case.id)
    except GraphError as error:
        return LoadFailure(path, digest, error)
    load_ns = time.perf_counter_ns() - begin_ns
    root = task.tree.source.root
    golden = None if root is None else (root / task.name).parent / case.golden_path
    notes = tuple(f"the case's value {name} is not used" for name in unused)
    return LoadedGraph(
        graph=graph,
        path=path,
        sha256=digest,
        text=text,
        load_ns=load_ns,
        golden=golden if golden is not None and golden.is_dir() else None,
        metadata=case.metadata,
        bundle=bundle,
        notes=(*notes, *graph_notes(graph)),
    )
