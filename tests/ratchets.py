"""What may only shrink: the code lines of each folder, and the tests that import internals.

`python -m tests.ratchets` writes `tests/sizes.toml` and `tests/surface.toml` anew: a row becomes
lower, never higher, and the list of test files shorter, never longer. Who means to raise a row or
to add a file edits the table by hand, where a reviewer sees it.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SIZES = ROOT / "tests" / "sizes.toml"
SURFACE = ROOT / "tests" / "surface.toml"
PACKAGES = ("bench_run", "bench_compare", "bench_schema")
_PROSE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Return the lines that hold a token other than a comment, a docstring or a lone bracket."""
    prose, lines = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _PROSE and token.string not in "()[]{},:":
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - prose)


def sizes() -> dict[str, int]:
    """Return the code lines of each folder: a package's own files, and each folder below."""
    found: Counter[str] = Counter()
    for top in ("bench_run", "bench_compare", "schema", "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            folder = "schema" if top == "schema" else "/".join(parts[: min(2, len(parts) - 1)])
            found[folder] += code_lines(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


def imported(path: Path) -> set[str]:
    """Return the modules of the packages that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update(_module(node.module, alias.name) for alias in node.names)
    return {name for name in found if name.split(".")[0] in PACKAGES}


def insiders(surface: set[str]) -> list[str]:
    """Return the test files that import a module that is not part of the surface."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not imported(path) <= surface
    ]


def _module(module: str, name: str) -> str:
    """Return `module.name` where that is a module, else `module`."""
    folder = ROOT / "schema" if module.startswith("bench_schema") else ROOT
    path = folder.joinpath(*module.split("."), name)
    return f"{module}.{name}" if path.is_dir() or path.with_suffix(".py").is_file() else module


def read(path: Path) -> dict:
    """Return a table of TOML."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _rewritten(path: Path, rows: str) -> None:
    """Replace what stands below the head of a table, its comment and its `modules`."""
    head, mark, _ = path.read_text(encoding="utf-8").partition("# Below: written by `python -m")
    path.write_text(f"{head}{mark} tests.ratchets`.\n{rows}", encoding="utf-8")


def main() -> None:
    """Write both tables anew, no row higher and no list longer than before."""
    before = read(SIZES)
    rows = {name: min(count, before.get(name, count)) for name, count in sizes().items()}
    _rewritten(SIZES, "".join(f'"{name}" = {count}\n' for name, count in rows.items()))
    table = read(SURFACE)
    kept = [name for name in insiders(set(table["modules"])) if name in table["insiders"]]
    _rewritten(SURFACE, "insiders = [\n" + "".join(f'  "{name}",\n' for name in kept) + "]\n")


if __name__ == "__main__":
    main()
