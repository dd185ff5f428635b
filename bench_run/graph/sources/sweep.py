"""hipDNN's sweeps: a template and a list of cases → graphs. See graphs/FORMAT.md.

A value of the template that is a text of exactly the form ``${case.path}`` is replaced as a whole.
Inside an object with an integer ``uid`` the path is looked up in the case's entry for that tensor
first, then in the case's values; dims, strides and data types come from the entry alone.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

from bench_run.errors import GraphError
from bench_run.graph.format import fields

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
    """Values of one case while it is filled in, and which of them were used."""

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
    """The cases of a ``sweep.json``."""
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
    """The JSON value of one case's graph, and the values of the case that nothing asked for."""
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
