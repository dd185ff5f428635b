"""Old documents into the present form: one pure step for each version.

A step takes the tree of a valid document of its version and gives the tree of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from bench_schema.document import SCHEMA_VERSION
from bench_schema.errors import FutureVersionError, SchemaError

Tree: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Tree], Tree]

STEPS: Mapping[int, Step] = {}
"""``STEPS[n]`` turns version n into n + 1; version 1 is the first, so there is none yet."""


def version_of(tree: object, where: str, known: int = SCHEMA_VERSION) -> int:
    """The version that a tree says it has; refuses what is no document and what is newer."""
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
    """The tree of a valid document of ``version`` as one of ``target``."""
    for step in range(version, target):
        tree = {**steps[step](tree), "schema_version": step + 1}
    return tree
