"""Inputs and expected outputs of a run's graphs: computed once each, kept on disk until it ends.

What computes them runs in a worker process too: a reference that crashes or needs too long costs
the validation of one graph, and the reason is in the document.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.crew import Crew
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.messages import Data, Evaluate, Judgement
from bench_run.plan import PlannedEngine, PlannedGraph, of_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.options import Options
    from bench_run.spent import Spent

SPOOL_BYTES = 8 << 30
"""Most that expected outputs may take on disk, and most that inputs may; the oldest make room and
are computed again."""


class Desk:
    """Gives every visit what its outputs are held against."""

    def __init__(
        self, options: Options, engines: Mapping[str, PlannedEngine], spent: Spent | None = None
    ) -> None:
        self._options = options
        self._engines = engines
        self._crew = Crew(options.timeout_s, {}, spent)
        self._folder = Path(tempfile.mkdtemp(prefix="bench-run-"))
        self._inputs = self._folder / "inputs"
        self._outputs = self._folder / "outputs"
        for folder in (self._inputs, self._outputs):
            folder.mkdir()
        self._known: dict[tuple[str, str], tuple[str | None, str | None]] = {}

    def data(self, graph: PlannedGraph) -> Data:
        """Where the inputs of a graph come from."""
        golden = self._golden(graph)
        return Data(
            seed=self._options.seed,
            init=self._options.init,
            golden=golden,
            graph_path=graph.loaded.path,
            kept=None if golden is not None else self._kept(graph),
        )

    def _kept(self, graph: PlannedGraph) -> str | None:
        """File for the graph's seeded inputs; None once the run is over."""
        name = hashlib.sha256(graph.id.path.encode()).hexdigest()[:16]
        if not self._inputs.is_dir():
            return None
        path = self._inputs / f"{name}-{graph.id.fingerprint[:12]}"
        if not path.exists():
            make_room(self._inputs)
        return str(path)

    def _golden(self, graph: PlannedGraph) -> str | None:
        """Folder of the graph's golden tensors: the one asked for, else the one beside it."""
        if self._options.write_golden is not None:
            return None
        if self._options.golden is not None:
            from bench_run.tensors.golden import find_golden

            asked = self._options.golden
            return asked if find_golden(graph.id.path, asked) is not None else None
        return None if graph.loaded.golden is None else str(graph.loaded.golden)

    def reference(self, graph: PlannedGraph, asked: str) -> str:
        """``auto`` is golden tensors where the graph has them, else the float64 reference."""
        if asked == "auto":
            return "numpy" if self._golden(graph) is None else "golden"
        return asked

    def judgement(self, graph: PlannedGraph, asked: str) -> Judgement:
        reference = self.reference(graph, asked)
        options = self._options
        folder, reason = self._expected(graph, reference)
        return Judgement(
            reference=reference,
            expected=folder,
            reason=reason,
            policy=options.tolerance,
            rtol=options.rtol,
            atol=options.atol,
            mismatches=options.mismatches,
            budget_s=options.check_budget_s,
            save_outputs=options.save_outputs,
            math=options.math,
            sidecar=_sidecar(graph),
        )

    def _expected(self, graph: PlannedGraph, reference: str) -> tuple[str | None, str | None]:
        """Folder with the expected outputs, or None and the reason."""
        if reference == "none":
            return None, "no reference was asked for"
        if reference == "golden" and self._golden(graph) is None:
            return None, "the graph has no golden tensors"
        key = (graph.id.path, reference)
        found = self._known.get(key)
        if found is None or (found[0] is not None and not Path(found[0]).exists()):
            found = self._known[key] = self._compute(graph, reference)
        return found

    def _compute(self, graph: PlannedGraph, reference: str) -> tuple[str | None, str | None]:
        make_room(self._outputs)
        folder = self._outputs / f"{len(self._known)}-{graph.id.fingerprint[:12]}"
        engine = self._engine(reference)
        request = Evaluate(
            graph=graph.loaded.graph,
            data=self.data(graph),
            folder=str(folder),
            engine=reference not in ("numpy", "golden"),
            write_golden=self._options.write_golden,
            stem=Path(graph.id.path).stem,
        )
        problem = self._crew.evaluate(engine, request)
        if problem is None:
            return str(folder), None
        shutil.rmtree(folder, ignore_errors=True)
        return None, f"the reference {reference} gave no outputs: {problem}"

    def _engine(self, reference: str) -> PlannedEngine:
        """The engine whose worker computes: golden files and float64 need none of their own."""
        if reference in ("numpy", "golden"):
            return PlannedEngine("numpy", EngineSpec("numpy", "numpy"), EngineOptions(), "none")
        if reference in self._engines:
            return self._engines[reference]
        from bench_run.engines.spec import parse_spec

        options = replace(next(iter(self._engines.values())).options, timer="host")
        spec = parse_spec(reference)
        return PlannedEngine(reference, spec, of_spec(options, spec), "none")

    def close(self) -> None:
        self._crew.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _sidecar(graph: PlannedGraph) -> str | None:
    """The file with the graph's own tolerances, if there is one."""
    from bench_run.tolerance import sidecar_of

    path = sidecar_of(graph.id.path)
    return str(path) if path.is_file() else None


def make_room(folder: Path, most_bytes: int = SPOOL_BYTES) -> None:
    """Remove the oldest of what lies in the folder until the rest is small enough."""
    oldest_first = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    sizes = {path: _bytes_of(path) for path in oldest_first}
    total = sum(sizes.values())
    for path, size in sizes.items():
        if total <= most_bytes:
            return
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        total -= size


def _bytes_of(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files)
