"""What is fuzzed: seeds, how they are changed, and what may come of it.

A target's `attempt` takes a changed input and a folder of its own. It ends, or raises one of the
errors that are meant for the person who gave the input; everything else is a finding.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema import codec, files, journal
from bench_schema.errors import DocumentError
from bench_schema.journal import is_journal

from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.numpy_engine import open as open_numpy
from bench_run.errors import BenchRunError
from bench_run.graph.driver import convert_line
from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from bench_run.graph.make import OPS, make_graphs
from bench_run.graph.make.operators import with_operators
from bench_run.graph.sources.load import load
from bench_run.graph.sources.suites import read_suite
from bench_run.plan.cases import plan_graph
from bench_run.reference import evaluate
from bench_run.tensors.golden import find_golden, read_golden, write_golden
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import OutputChecker
from bench_run.validate.tolerance import Circumstances, tolerances
from tests.fuzz import comparisons, compositions, features, mutators

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
SMALL = 20_000
"""Elements up to which a graph is run too."""
MEANT = (BenchRunError, DocumentError)


@dataclass(frozen=True)
class Target:
    seeds: Callable[[], tuple[Any, ...]]
    mutate: Callable[..., Any]
    attempt: Callable[[Any, Path], None]


@cache
def graph_texts():
    folders = (ROOT / "graphs" / "smoke", ROOT / "tests" / "data" / "graphs")
    found = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.json"))]
    values = [json.loads(text) for text in found]
    made = [json.loads(write_graph(g)) for spec in SPECS for g in make_graphs(spec, "small")]
    return tuple(v for v in (*values, *made) if "nodes" in v)


SPECS = (
    "conv_fwd+bias+relu",
    "matmul",
    "sdpa",
    "sdpa_bwd",
    "batchnorm_training",
    "layernorm_bwd",
    "moe_grouped_matmul: mode=scatter top_k=2",
    "moe_grouped_matmul: mode=gather",
    "maxpool",
    "reduce_add",
    "block_scale_quantize",
    "mx_matmul",
    "relu6_bwd",
    "gen_index",
)


def try_graph(value, folder):
    """Read, written and read again, planned; small ones are run and validated."""
    graph = read_graph(json.dumps(value).encode(), "fuzz.json")
    assert read_graph(write_graph(graph), "again.json") == graph
    (folder / "g.json").write_text(json.dumps(value))
    (loaded,) = load([str(folder / "g.json")]).graphs or (None,)
    if loaded is None:
        return
    plan_graph(loaded)
    if graph.tensors and sum(tensor.span for tensor in graph.tensors) <= SMALL:
        run_small(graph)


def run_small(graph):
    """What the numpy engine makes of a graph is what the reference says."""
    inputs = make_inputs(graph, 0)
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    expected = evaluate(graph, arrays)
    engine = open_numpy(EngineSpec("numpy", "numpy"), EngineOptions())
    plan = engine.plan(engine.build(graph, {}))
    try:
        plan.upload(inputs)
        plan.poison()
        plan.run()
        outputs = plan.download()
    finally:
        plan.close()
    allowed = tolerances(graph, circumstances=Circumstances(inputs))
    with np.errstate(all="ignore"):
        result = OutputChecker(graph, expected, allowed).check(outputs)
    assert result.mismatched == 0, [row for row in result.outputs if row.mismatched]


def spec_texts():
    own = [
        f"{name}: {shapes}"
        for name, recipe in OPS.items()
        for shapes in recipe.shapes.get("small", ())
    ]
    return (*own, *SPECS, "conv_fwd: n=1,2 c=8..16 h=9 w=9 k=8 r=3 s=3 dtype=half layout=nhwc")


def try_spec(text, folder):
    for graph in make_graphs(text, "small")[:4]:
        again = with_operators(read_graph(write_graph(graph), "made.json"), "made.json")
        assert again == graph


def driver_lines():
    text = (ROOT / "tests" / "data" / "driver" / "lines.txt").read_text()
    rows = [row.partition(" => ")[0] for row in text.splitlines() if " => " in row]
    return tuple(rows)


def try_line(line, folder):
    for graph in convert_line(line, "line").graphs:
        assert with_operators(read_graph(write_graph(graph), "driver.json"), "") == graph


def suite_texts():
    return tuple(p.read_text() for p in sorted((ROOT / "graphs" / "suites").glob("*.toml")))


def try_suite(text, folder):
    (folder / "s.toml").write_bytes(text.encode("utf-8", "replace"))
    read_suite(folder / "s.toml")


@cache
def small_graph():
    return make_graphs("matmul: m=3 n=4 k=5")[0]


@cache
def bundle_files():
    """A golden bundle as (name, bytes) pairs."""
    import tempfile

    graph = small_graph()
    inputs = make_inputs(graph, 0)
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    expected = evaluate(graph, arrays)
    outputs = {t.uid: expected[t.uid].astype(np.float32).ravel() for t in graph.outputs}
    with tempfile.TemporaryDirectory() as place:
        written = write_golden(graph, inputs, outputs, Path(place, "g.golden"), {"seed": "0"})
        return tuple((path.name, path.read_bytes()) for path in written)


def mutate_bundle(random, bundle, others=()):
    place = random.randrange(len(bundle))
    name, content = bundle[place]
    if name.endswith(".json") and random.random() < 0.7:
        content = json.dumps(mutators.json_value(random, json.loads(content))).encode()
    else:
        content = mutators.data(random, content)
    return (*bundle[:place], (name, content), *bundle[place + 1 :])


def try_bundle(bundle, folder):
    inside = folder / "g.golden"
    inside.mkdir(exist_ok=True)
    for name, content in bundle:
        (inside / name).write_bytes(content)
    found = find_golden(folder / "g.json")
    if found is not None:
        read_golden(small_graph(), found)


@cache
def archives():
    text = write_graph(small_graph())
    packed = []
    for mode in ("w", "w:gz"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=mode) as archive:
            for name in ("a.json", "deep/b.json"):
                info = tarfile.TarInfo(name)
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text))
        packed.append(buffer.getvalue())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", text)
        archive.writestr("deep/b.json", text)
    return (*packed, buffer.getvalue())


def try_archive(content, folder):
    kind = {b"PK": "zip", b"\x1f\x8b": "tar.gz"}
    path = folder / f"a.{kind.get(content[:2], 'tar')}"
    path.write_bytes(content)
    load([str(path)])


def documents():
    folder = ROOT / "tests" / "data" / "documents"
    return tuple(json.loads((folder / name).read_bytes()) for name in ("v1.json", "v2.json"))


def try_document(value, folder):
    (folder / "d.json").write_text(json.dumps(value))
    document = files.read(folder / "d.json")
    assert codec.encode(document)


@cache
def journals():
    """As they are written today."""
    import tempfile

    stored = files.read(ROOT / "tests" / "data" / "documents" / "v2.json")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "d.json.journal")
        with journal.Journal.create(path, replace(stored, cases=())) as out:
            for case in stored.cases:
                out.append_case(replace(case, summary={}, achieved=None))
        return (path.read_bytes(),)


def try_journal(content, folder):
    """Read, opened to go on with, and read again: the same."""
    path = folder / "d.json.journal"
    path.write_bytes(content)
    document = files.read(path)
    assert codec.encode(document)
    if is_journal(content):
        journal.Journal.reopen(path).close()
        again = journal.read_journal(path)
        assert [case.id for case in again.cases] == [case.id for case in document.cases]


def document_texts():
    """Each graph once on each engine, as a run has it."""
    return tuple(json.dumps(_without_repeats(document)) for document in documents())


def _without_repeats(document):
    cases = {(c["graph"]["fingerprint"], c["engine"]): c for c in document["cases"]}
    return {**document, "cases": list(cases.values())}


def try_comparison(text, folder):
    comparisons.attempt(text, folder, document_texts()[1])


def try_features(names, folder):
    found = features.problems(names, 0, folder)
    assert not found, "\n".join(found)


TARGETS = {
    "graphs": Target(graph_texts, mutators.json_value, try_graph),
    "specs": Target(spec_texts, mutators.text, try_spec),
    "driver lines": Target(driver_lines, mutators.text, try_line),
    "suites": Target(suite_texts, mutators.text, try_suite),
    "bundles": Target(lambda: (bundle_files(),), mutate_bundle, try_bundle),
    "archives": Target(archives, mutators.data, try_archive),
    "documents": Target(documents, mutators.json_value, try_document),
    "comparisons": Target(document_texts, comparisons.text_of, try_comparison),
    "compositions": Target(compositions.texts, compositions.mutate, compositions.attempt),
    "journals": Target(journals, mutators.lines, try_journal),
    "features": Target(lambda: (("quiet",),), lambda draw, *_: features.chosen(draw), try_features),
}
