"""Old documents into the present form: one pure step for each version.

A step takes the tree of a valid document of its version and gives the tree of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from bench_schema.document import SCHEMA_VERSION
from bench_schema.errors import FutureVersionError, SchemaError

Tree: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Tree], Tree]


def add_unknown(value: Tree, fields: Sequence[str]) -> Tree:
    """Add fields that an older version did not have, or not always, as unknown."""
    return {**value, **{name: None for name in fields if name not in value}}


SETTINGS_2 = (
    "init",
    "executions",
    "knobs",
    "threads",
    "max_rounds",
    "until",
    "threshold_ratio",
    "worker_start",
    "round_preparation",
    "device_parallelism",
    "vendor_caches",
    "pass_bytes",
)
VALIDATION_2 = ("iterations_poisoned", "inputs_unchanged", "reference_source")
ROUND_2 = (
    "energy_window_s",
    "host",
    "device_uuid",
    "attempt",
    "device_timing",
    "device_bound_ns",
    "inner_gap_ns",
    "between_gap_ns",
    "surroundings",
)


def to_version_2(tree: Tree) -> Tree:
    """Upgrade version 1, which recorded less on the circumstances of a round."""
    run = {**add_unknown(tree["run"], ["shard", "whole"]), "notes": []}
    settings = add_unknown(run["settings"], SETTINGS_2)
    engines = [add_unknown(engine, ["device_index", "abilities"]) for engine in tree["engines"]]
    cases = [_case_2(case) for case in tree["cases"]]
    run = {**run, "settings": settings}
    return {**tree, "run": run, "engines": engines, "cases": cases, "parts": []}


def _case_2(case: Tree) -> Tree:
    validation = case["validation"]
    if validation is not None:
        validation = add_unknown(validation, VALIDATION_2)
    rounds = [add_unknown(each, ROUND_2) for each in case["rounds"]]
    graph = {**case["graph"], "layers": []}
    later = {"graph": graph, "validation": validation, "rounds": rounds, "implausible": None}
    return {**case, **later}


def to_version_3(tree: Tree) -> Tree:
    """Upgrade version 2, which did not have blocks, nor buffers that move."""
    cases = [
        {**case, "rounds": [{**ROUND_3, **each} for each in case["rounds"]]}
        for case in tree["cases"]
    ]
    parts = [{**part, "run": _run_3(part["run"])} for part in tree["parts"]]
    return {**tree, "run": _run_3(tree["run"]), "cases": cases, "parts": parts}


SETTINGS_3 = {"math": ("settle",), "executions": ("interleave", "placements")}
"""New settings by the one before which they stand: a document that is written keeps the order."""


def _run_3(run: Tree) -> Tree:
    settings: Tree = {}
    for name, value in run["settings"].items():
        settings |= dict.fromkeys(SETTINGS_3.get(name, ()))
        settings[name] = value
    return {**run, "settings": settings}


ROUND_3: Tree = {"blocks": {}, "block_places": [], "placements": {}}

STEPS: Mapping[int, Step] = {1: to_version_2, 2: to_version_3}
"""``STEPS[n]`` turns version n into n + 1."""


def version_of(tree: object, where: str, known: int = SCHEMA_VERSION) -> int:
    """Return the version field of a tree. Raises for a tree that is not a document and for one that
    is newer."""
    if isinstance(tree, dict) and isinstance(tree.get("tuning_version"), int):
        raise SchemaError(
            where,
            "is a record of an older bench-run tune, whose choices no longer hold: tune again; its "
            "times are in the result document beside it",
        )
    if not isinstance(tree, dict) or "schema_version" not in tree:
        raise SchemaError(where, "JSON, but not a benchmark result: no field 'schema_version'")
    version = tree["schema_version"]
    if isinstance(version, float) and version.is_integer():
        version = int(version)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SchemaError(
            f"{where}: schema_version", f"expected an integer from 1, found {version!r}"
        )
    if version > known:
        raise FutureVersionError(
            where,
            f"follows version {version} of the schema, this tool knows up to {known}: "
            "update it (pip install --upgrade dnn-bench) to read this document",
        )
    return version


def upgrade(
    tree: Tree, version: int, target: int = SCHEMA_VERSION, steps: Mapping[int, Step] = STEPS
) -> Tree:
    """Return the tree of a valid document of ``version`` as one of ``target``."""
    for step in range(version, target):
        tree = {**steps[step](tree), "schema_version": step + 1}
    return tree
