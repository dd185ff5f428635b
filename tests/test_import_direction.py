"""Who may import whom: the rules of the architecture, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "bench_run": ROOT / "bench_run",
    "bench_compare": ROOT / "bench_compare",
    "bench_schema": ROOT / "schema" / "bench_schema",
}
MODULES = sorted((path, name) for name, folder in PACKAGES.items() for path in folder.rglob("*.py"))
ENGINES = sorted(
    path.stem for path in (ROOT / "bench_run" / "engines").iterdir()
    if path.stem not in ("__init__", "base", "spec", "processor", "rotate", "__pycache__")
)  # fmt: skip


def imports(path):
    """Dotted names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


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
        ("docopt", ("bench_run/cli.py", "bench_compare/cli.py")),
        ("plotly", ("bench_compare/report/",)),
        ("argparse", ()),
        ("torch", ("bench_run/engines/torch_engine", "bench_run/streams/torch.py")),
        ("cudnn", ("bench_run/engines/cudnn",)),
        ("hipdnn_frontend", ("bench_run/engines/hipdnn",)),
    ],
)  # fmt: skip
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
def test_an_engine_imports_no_other_engine_and_no_reference(engine):
    base = ROOT / "bench_run" / "engines" / engine
    paths = list(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    others = {f"bench_run.engines.{other}" for other in ENGINES if other != engine}
    found = {
        name
        for path in paths
        for name in imports(path)
        if name.startswith("bench_run.reference") or any(name.startswith(o) for o in others)
    }
    assert set() == found


PRINTERS = ("cli.py", "console.py", "progress.py", "__main__.py")


def test_only_the_ends_print():
    found = [
        str(path.relative_to(ROOT))
        for path, _ in MODULES
        if path.name not in PRINTERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
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
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'schema'}"},
    )  # fmt: skip
    assert "[]" == done.stderr.strip()
