"""Who may import whom: the rules of the architecture, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "bench_run": ROOT / "bench_run",
    "bench_compare": ROOT / "bench_compare",
    "bench_schema": ROOT / "schema" / "bench_schema",
}
EXAMPLES = PACKAGES["bench_run"] / "examples"
"""Files as users write them: they are copied, never imported by us."""
MODULES = sorted(
    (path, name)
    for name, folder in PACKAGES.items()
    for path in folder.rglob("*.py")
    if EXAMPLES not in path.parents
)
SHARED = (
    *("__init__", "__pycache__", "base", "spec", "processor", "caches"),
    *(
        "arrange",
        "chain",
        "device_engine",
        "device_plan",
        "host_plan",
        "reported",
        "rotate",
        "user_file",
    ),
)
ENGINES = sorted(
    path.stem for path in (ROOT / "bench_run" / "engines").iterdir() if path.stem not in SHARED
)


BELOW = {
    "bench_run": {
        "text": (),
        "errors": ("text",),
        "progress": ("text",),
        "files": ("errors",),
        "graph": ("errors",),
        "operators": ("graph",),
        "user": ("errors", "files", "graph", "operators"),
        "streams": ("errors",),
        "machine": ("errors", "files", "streams"),
        "reference": ("errors", "graph", "user"),
        "tensors": ("errors", "files", "graph", "reference"),
        "report": ("graph", "text"),
        "settings": (),
        "options": ("errors", "settings", "tensors"),
        "engines": (
            *("errors", "files", "text", "graph", "operators", "user"),
            *("streams", "machine", "reference", "tensors"),
        ),
        "validate": ("errors", "files", "graph", "user", "reference", "tensors"),
        "measure": (
            *("errors", "files", "text", "graph", "user"),
            *("streams", "machine", "tensors", "engines"),
        ),
        "profilers": (
            *("errors", "files", "graph", "streams", "machine", "tensors", "engines", "measure"),
        ),
        "plan": ("errors", "text", "files", "graph", "user", "tensors", "options", "engines"),
        "worker": (
            "errors",
            "files",
            "text",
            "graph",
            "streams",
            "machine",
            "reference",
            "tensors",
            "engines",
            "validate",
            "measure",
            "profilers",
            "plan",
        ),
        "runner": (
            "errors",
            "text",
            "user",
            "files",
            "progress",
            "graph",
            "streams",
            "machine",
            "tensors",
            "options",
            "engines",
            "validate",
            "measure",
            "profilers",
            "plan",
            "worker",
        ),
        "fleet": (
            "errors",
            "files",
            "progress",
            "machine",
            "measure",
            "options",
            "plan",
            "worker",
            "runner",
        ),
        "tune": (
            "errors",
            "files",
            "progress",
            "text",
            "graph",
            "machine",
            "options",
            "engines",
            "measure",
            "plan",
            "worker",
            "runner",
        ),
        "judge": (
            *("errors", "text", "user", "files", "progress", "graph", "tensors", "options"),
            *("engines", "plan", "worker", "runner"),
        ),
        "models": ("errors", "files", "graph"),
        "commands": (
            "judge",
            "tune",
            "user",
            "settings",
            "errors",
            "files",
            "text",
            "graph",
            "machine",
            "tensors",
            "report",
            "options",
            "engines",
            "plan",
            "worker",
            "runner",
            "models",
            "fleet",
        ),
        "opperf": ("errors", "graph", "options", "engines", "runner"),
        "__init__": ("opperf", "runner", "user"),
        "cli": ("errors", "text", "commands", "runner"),
        "__main__": ("cli",),
    },
    "bench_schema": {
        "errors": (),
        "settings": (),
        "provenance": ("settings",),
        "tuning": ("errors",),
        "streams": (),
        "version": (),
        "usage": (),
        "names": (),
        "units": (),
        "document": ("provenance", "tuning"),
        "launches": ("document",),
        "identity": ("document",),
        "student": (),
        "estimate": ("settings", "provenance", "document", "student"),
        "summary": ("document", "estimate"),
        "checks": ("errors",),
        "pipeline": ("errors",),
        "knobs": (),
        "packing": ("errors",),
        "upgrade": ("errors", "document"),
        "merge": ("document", "summary"),
        "rounds": ("document",),
        "codec": ("errors", "document", "tuning", "checks", "upgrade", "rounds"),
        "journal": (
            "errors",
            "document",
            "packing",
            "checks",
            "upgrade",
            "merge",
            "codec",
        ),
        "files": ("document", "packing", "codec", "journal"),
        "places": ("errors", "journal", "packing", "pipeline"),
        "report": ("names", "units", "packing", "tuning"),
        "__init__": (),
    },
}
"""Room to the rooms it may import: each stands above it in the table, so no arrow runs upward."""


@cache
def nodes(path):
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports(path):
    """Dotted names that a module imports, wherever in it."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def module_name(path, package):
    """Dotted; a package's own name for its `__init__`."""
    parts = path.relative_to(PACKAGES[package].parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


NAMES = {module_name(path, package) for path, package in MODULES}


def used_modules(path):
    """Modules of ours that a module imports, wherever in it, types included."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in NAMES)
        elif isinstance(node, ast.ImportFrom) and node.module in NAMES:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in NAMES else node.module for name in inner)


def room(dotted):
    """Of a module: the folder or file at the top of its package."""
    return (*dotted.split("."), "__init__")[1]


ROOMS = sorted(
    {(package, room(module_name(path, package))) for path, package in MODULES if package in BELOW}
)


@pytest.mark.parametrize(("package", "name"), ROOMS)
def test_a_room_imports_only_the_rooms_below_it(package, name):
    found = {
        room(used)
        for path, owner in MODULES
        if owner == package and room(module_name(path, package)) == name
        for used in used_modules(path)
        if used.split(".")[0] == package
    }
    assert set() == found - {name, *BELOW[package][name]}


@pytest.mark.parametrize("package", BELOW)
def test_the_table_of_rooms_runs_one_way(package):
    order = list(BELOW[package])
    upward = [(a, b) for a in order for b in BELOW[package][a] if order.index(b) >= order.index(a)]
    assert [] == upward


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_import_each_other_in_no_circle(package):
    uses = {
        module_name(path, owner): {*used_modules(path)} - {module_name(path, owner)}
        for path, owner in MODULES
        if owner == package
    }
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_at_most_eight_modules_stand_at_the_top_of_bench_run():
    assert len(list(PACKAGES["bench_run"].glob("*.py"))) <= 8


def importers(name, allowed=()):
    """Modules that import a package from outside of the allowed places."""
    return [
        str(path.relative_to(ROOT))
        for path, _ in MODULES
        if any(found.split(".")[0] == name for found in imports(path))
        and not any(str(path.relative_to(ROOT)).startswith(place) for place in allowed)
    ]


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("bench_run", {"bench_compare"}),
        ("bench_compare", {"bench_run"}),
        ("bench_schema", {"bench_run", "bench_compare"}),
    ],
)
def test_a_package_does_not_know_the_others(package, forbidden):
    found = {
        name.split(".")[0] for path, owner in MODULES if owner == package for name in imports(path)
    }
    assert set() == found & forbidden


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("docopt", ("bench_run/cli.py", "bench_run/commands/again.py", "bench_compare/cli.py")),
        ("plotly", ("bench_compare/report/",)),
        ("argparse", ()),
        (
            "torch",
            (
                "bench_run/engines/torch_engine",
                "bench_run/streams/torch.py",
                "bench_run/models/torch_export.py",
            ),
        ),
        ("onnx", ("bench_run/models/onnx_file.py", "bench_run/graph/to_onnx.py")),
        ("cudnn", ("bench_run/engines/cudnn",)),
        ("hipdnn_frontend", ("bench_run/engines/hipdnn",)),
        ("ray", ("bench_run/fleet/cluster.py",)),
    ],
)
def test_a_library_is_imported_only_where_it_belongs(library, allowed):
    assert [] == importers(library, allowed)


def test_the_reference_imports_no_engine():
    found = [
        str(path)
        for path in (ROOT / "bench_run" / "reference").rglob("*.py")
        for name in imports(path)
        if name.startswith("bench_run.engines")
    ]
    assert [] == found


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_imports_no_other_engine_and_only_numpy_the_reference(engine):
    base = ROOT / "bench_run" / "engines" / engine
    paths = list(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    others = {f"bench_run.engines.{other}" for other in ENGINES if other != engine}
    found = {
        name
        for path in paths
        for name in imports(path)
        if name.startswith("bench_run.reference") or any(name.startswith(o) for o in others)
    }
    if engine == "numpy_engine":  # it computes the formulas of the reference in float32
        found = {name for name in found if not name.startswith("bench_run.reference")}
    assert set() == found


PRINTERS = ("cli.py", "console.py", "progress.py", "__main__.py")


def test_only_the_ends_print():
    found = [
        str(path.relative_to(ROOT))
        for path, _ in MODULES
        if path.name not in PRINTERS
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert [] == found


@pytest.mark.parametrize("module", ["bench_run", "bench_compare"])
def test_help_loads_neither_numpy_nor_plotly(module):
    program = (
        f"import sys; from {module}.cli import main; main(['--help']); "
        "print(sorted({'numpy', 'plotly', 'scipy', 'torch', 'jsonschema'} & set(sys.modules)),"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'schema'}"},
    )
    assert "[]" == done.stderr.strip()
