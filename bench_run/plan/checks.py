"""Checks that what options name exists: tensors of ``--init``, golden tensors of ``--golden``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import GraphError, UsageError
from bench_run.tensors.init_plan import parse_init, unused_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.load import LoadedGraph
    from bench_run.options import Options


def check_options(options: Options, graphs: Sequence[LoadedGraph]) -> tuple[str, ...]:
    """A note for each graph that has no part in what was asked for.

    Raises `UsageError` for a tensor that no graph has, `GraphError` where no graph has golden
    tensors.
    """
    _check_init(options, graphs)
    return () if options.golden is None else _without_golden(options.golden, graphs)


def _check_init(options: Options, graphs: Sequence[LoadedGraph]) -> None:
    plan = parse_init(options.init)
    unused = [set(unused_names(plan, loaded.graph)) for loaded in graphs]
    for name in plan.by_tensor:
        if all(name in names for names in unused):
            inputs = (t.name or str(t.uid) for loaded in graphs for t in loaded.graph.inputs)
            known = ", ".join(dict.fromkeys(inputs))
            raise UsageError(f"--init: no input {name!r} in these graphs; choose from {known}")


def _without_golden(folder: str, graphs: Sequence[LoadedGraph]) -> tuple[str, ...]:
    from bench_run.tensors.golden import find_golden, why_none

    if not Path(folder).is_dir():
        raise UsageError(f"--golden: {folder} is not a directory")
    lacking = [loaded for loaded in graphs if find_golden(loaded.path, folder) is None]
    if len(lacking) == len(graphs):
        raise GraphError(lacking[0].path, why_none(lacking[0].path, folder))
    return tuple(f"{loaded.path}: {why_none(loaded.path, folder)}" for loaded in lacking)
