"""Checks that what options name exists: tensors of ``--init``, golden tensors of ``--golden``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.units import count_text

from bench_run.errors import GraphError, UsageError
from bench_run.plan.engines import takes_knobs
from bench_run.tensors.seeded.init_plan import parse_init, unused_names
from bench_run.tensors.seeded.roles import leaves_choice, roles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_run.graph.sources.load import LoadedGraph
    from bench_run.options import Engines, Validation
    from bench_run.plan.engines import PlannedEngine


def check_data(settings: Validation, graphs: Sequence[LoadedGraph]) -> tuple[str, ...]:
    """Return a note for each graph to which the request does not apply.

    Raises `UsageError` for a tensor that no graph has, `GraphError` if no graph has golden tensors.
    """
    plan, golden = parse_init(settings.init), settings.golden
    unused = [set(unused_names(plan, loaded.graph)) for loaded in graphs]
    for name in plan.by_tensor:
        if all(name in names for names in unused):
            inputs = (t.name or str(t.uid) for loaded in graphs for t in loaded.graph.inputs)
            known = ", ".join(dict.fromkeys(inputs))
            raise UsageError(f"--init: no input {name!r} in these graphs; choose from {known}")
    fixed = () if plan.default is None else _without_choice(graphs)
    without = () if golden is None else _without_golden(golden, graphs)
    return (*fixed, *without, *_over_golden(settings, graphs))


def with_golden_inputs(settings: Validation, graphs: Sequence[LoadedGraph]) -> list[LoadedGraph]:
    """Return the graphs that are fed golden inputs, in place of drawn ones."""
    given = settings.golden, settings.write_golden
    return [loaded for loaded in graphs if golden_folder(loaded, *given) is not None]


def golden_folder(loaded: LoadedGraph, golden: str | None, write_golden: str | None) -> str | None:
    """Return the folder of the golden tensors that a graph is run with: the requested one, else the
    one next to it; None without any, and where they are written."""
    if write_golden is not None:
        return None
    if golden is None:
        return None if loaded.golden is None else str(loaded.golden)
    from bench_run.tensors.golden import find_golden

    return golden if find_golden(loaded.path, golden) is not None else None


def _over_golden(settings: Validation, graphs: Sequence[LoadedGraph]) -> Iterator[str]:
    """Yield notes on ``--init`` and ``--seed``, which say nothing of golden inputs."""
    if not (settings.init or settings.seed):
        return
    golden = with_golden_inputs(settings, graphs)
    if golden:
        what = f"the inputs of {count_text(len(golden), 'graph')} are golden ({golden[0].path})"
        if settings.init:
            yield f"--init has no effect there: {what}"
        if settings.seed:
            yield f"--seed draws no inputs there: {what}"


def _without_choice(graphs: Sequence[LoadedGraph]) -> tuple[str, ...]:
    """Return notes on graphs in which an ``--init`` without a tensor's name applies to no input."""
    fixed = []
    for loaded in graphs:
        by_uid = roles(loaded.graph)
        if not any(leaves_choice(tensor, by_uid[tensor.uid]) for tensor in loaded.graph.inputs):
            fixed.append(loaded)
    if fixed and len(fixed) == len(graphs):
        names = ", ".join(t.name or str(t.uid) for t in fixed[0].graph.inputs)
        raise UsageError(
            f"--init: the operation of {fixed[0].path} says what its inputs must be like; "
            f"to change one, name it: NAME=KIND, with NAME of {names}"
        )
    return tuple(f"{loaded.path}: --init holds for none of its inputs" for loaded in fixed)


def _without_golden(folder: str, graphs: Sequence[LoadedGraph]) -> tuple[str, ...]:
    from bench_run.tensors.golden import find_golden, why_none

    if not Path(folder).is_dir():
        raise UsageError(f"--golden: {folder} is not a directory")
    lacking = [loaded for loaded in graphs if find_golden(loaded.path, folder) is None]
    if len(lacking) == len(graphs):
        raise GraphError(lacking[0].path, why_none(lacking[0].path, folder))
    return tuple(f"{loaded.path}: {why_none(loaded.path, folder)}" for loaded in lacking)


def partly_taken(
    chosen: Engines,
    engines: Sequence[PlannedEngine],
    devices: Mapping[str, int | None],
    clocks: Mapping[str, str],
) -> Iterator[str]:
    """Yield notes. `devices`: how many each engine can choose from, None for no choice; `clocks` by
    which each is timed. An option that no engine takes was refused before."""
    if chosen.knobs:
        without = [e for e in engines if not takes_knobs(e.spec)]
        yield from _note("--knob", without, "without knobs")
    if chosen.devices != (0,):
        without = [e for e in engines if devices[e.key] is None]
        yield from _note("--device", without, "without a choice of devices")
    if chosen.timer in ("events", "cupti"):
        without = [e for e in engines if clocks[e.key] == "host"]
        yield from _note(f"--timer {chosen.timer}", without, "timed by the host's clock")


def _note(flag: str, engines: Sequence[PlannedEngine], what: str) -> Iterator[str]:
    if engines:
        names = ", ".join(engine.key for engine in engines)
        yield f"{flag} does not hold for {names}: {what}"
