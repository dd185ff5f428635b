"""The files that a run reads and writes, by its options: inputs and outputs are kept apart before
anything runs."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.places import (
    Place,
    check_places,
    journaled,
    pipeline_files,
    refuse_replacing,
    result_places,
)
from bench_schema.settings import rows_of

from bench_run.errors import GraphError
from bench_run.files import writing
from bench_run.graph.sources.files import is_archive, sweep_partner
from bench_run.graph.sources.suites import SUFFIX, own_graphs
from bench_run.options import Options
from bench_run.runner.references import kept_references
from bench_run.tensors.seeded.init_plan import parse_init

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OWN_KIND = "hipdnn:"
"""Prefix of the directory of ``--write-golden``."""
GRAPH = "GRAPH"
GRAPHS = (".json",)
GOLDEN = (".bin", ".safetensors", "manifest.json")
ANY = ("",)
"""Endings of every file."""

INPUTS = {
    "rerun_from": (),
    "tuned": (),
    "observer": (),
    "golden": ANY,
    "plugin_path": (".so",),
    "hipdnn_prefix": (".so", ".py"),
}
"""Setting to the endings of the files that are read in its folder; none where it names a file."""
REPORTS = ("csv", "csv_samples", "markdown", "trace")
FOLDERS = {
    "save_graphs": GRAPHS,
    "write_golden": (*GRAPHS, *GOLDEN),
    "save_outputs": (".safetensors",),
    "cache_dir": ANY,
    "reference_cache": ANY,
}
"""Setting to the endings of the files that are written to its folder."""


def check_run_places(options: Options, others: Iterable[Place] = ()) -> None:
    """Raise `OutputError`, which names both flags, if inputs and outputs meet; and if the result
    document would replace a file. `others`: further inputs of the command."""
    with writing(options.output or ""):
        check_places((*inputs_of(options), *others), outputs_of(options))
        if options.output is not None:
            refuse_replacing(options.output, force=options.force, resume=options.resume)


def inputs_of(options: Options) -> Iterator[Place]:
    rows = rows_of(Options)
    for name, endings in INPUTS.items():
        given = vars(options)[name]
        for path in given if isinstance(given, tuple) else (given,):
            if path is not None:
                yield Place(rows[name].flag, path, endings)
    if options.config is not None:
        yield Place("--config", options.config)
    for argument in options.graphs:
        yield from graph_places(argument)
    filled = parse_init(options.init)
    for rule in (filled.default, *filled.by_tensor.values()):
        if rule is not None and rule.path is not None:
            yield Place(rows["init"].flag, rule.path)
    lines = (("miopen_driver", options.miopen_driver), ("benchdnn", options.benchdnn))
    yield from (
        Place(rows[k].flag, one) for k, given in lines for one in given if Path(one).is_file()
    )
    yield from _plugins(options)
    if options.against is not None:
        yield from result_places(rows["against"].flag, options.against)


def _plugins(options: Options) -> Iterator[Place]:
    """Yield the plugins in the specs of engines."""
    named = {"--engine": options.engine, "--a": (options.a or "",), "--b": (options.b or "",)}
    for flag, specs in named.items():
        for path in filter(None, (spec.partition("@")[2] for spec in specs)):
            yield Place(flag, path, (".so",) if os.path.isdir(path) else ())


def graph_places(argument: str) -> Iterator[Place]:
    """Yield the inputs of one GRAPH: files with their side files, folders, archives, suites."""
    try:
        path = own_graphs(argument)
    except GraphError:  # as is said where it is loaded
        return
    if os.path.isdir(path):
        yield Place(GRAPH, path, (*GRAPHS, ".bin"))
    elif not os.path.exists(path):
        for match in glob.glob(path, recursive=True):
            yield from graph_places(match)
    elif path.endswith(SUFFIX):
        yield Place(GRAPH, path)
        for file in dict.fromkeys(map(str, pipeline_files(Path(path)))):
            yield from graph_places(file)
    else:
        yield Place(GRAPH, path)
        folder, name = os.path.split(path)
        if not is_archive(path):
            stem = path.removesuffix(".json")
            yield Place(GRAPH, f"{stem}.meta.json")
            if os.path.isdir(f"{stem}.golden"):
                yield Place(GRAPH, f"{stem}.golden", ANY)
            if stem.endswith("template"):
                yield Place(GRAPH, os.path.join(folder, sweep_partner(name)))


def outputs_of(options: Options) -> Iterator[Place]:
    values, rows = vars(options), rows_of(Options)
    if options.output is not None:
        yield from journaled("-o", options.output)
    for name in REPORTS:
        if values[name] is not None:
            yield Place(rows[name].flag, values[name], is_report=True)
    for name, endings in FOLDERS.items():
        folder = values[name]
        if name == "reference_cache" and folder is not None:
            kept = kept_references(folder)
            folder = None if kept is None else kept.folder
        if folder is not None:
            yield Place(rows[name].flag, folder.removeprefix(OWN_KIND), endings)
    if options.save_suite is not None:
        flag = rows["save_suite"].flag
        yield Place(flag, options.save_suite)
        yield Place(flag, str(Path(options.save_suite).with_suffix("")), GRAPHS)
