"""A look at the text of a kernel's file: what an honest kernel does not need, with its line.

Nothing is run. A finding does not accuse. A kernel that only calls a function of a library has
nothing of its own to be judged.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.user.compiled import is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LIBRARIES = ("torch", "numpy", "cupy", "jax", "scipy", "aiter", "flash_attn", "xformers")
CLOCKS = re.compile(r"(time\.)?(perf_counter|monotonic|process_time|time)(_ns)?")
EVENTS = re.compile(r".*\b(cuda\.Event|cupti|cuEventElapsedTime|hipEventElapsedTime)\b.*")
THREADS = ("threading", "multiprocessing", "subprocess", "concurrent", "asyncio", "signal")
NETWORK = ("socket", "urllib", "http", "requests", "ftplib")
STACK = ("inspect.stack", "inspect.currentframe", "sys._getframe", "traceback.extract_stack")
MEMORY = ("ctypes", "gc", "mmap", "marshal", "pickle")
HIDDEN = ("exec", "eval", "compile", "__import__", "globals", "vars")
KEPT = ("functools.cache", "functools.lru_cache", "cache", "lru_cache")
CALLED = re.compile(r"\b((?:cublas|cudnn|rocblas_|hipblas|miopen|hipdnn|mkl_|cblas_)\w*)\s*\(")
OWN_WORK = re.compile(r"__global__|\bfor\s*\(|\bwhile\s*\(")


@dataclass(frozen=True)
class Finding:
    """One row of the answer."""

    rule: str
    line: int
    text: str

    def words(self, name: str) -> str:
        return f"{name}:{self.line} {self.text}"


LIBRARY = "library"
"""Rule of a kernel that only calls a library."""


def look_at(
    path: str, function: str | None = None, names: frozenset[str] = frozenset()
) -> list[Finding]:
    """Return what is found in a file, in the order of its lines; empty for one that is not text.
    `function`: name of the kernel; None: those with one of `names`, or all if none has. A file that
    cannot be parsed has no findings: loading it says why."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if is_compiled(Path(path)):
            return list(_calls_in_c(text))
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return []
    module = Module(tree)
    found = [*module.library_calls(function, names), *(f for rule in RULES for f in rule(module))]
    return sorted(dict.fromkeys(found), key=lambda each: (each.line, each.rule))


class Module:
    """The syntax tree of a file, with the full names of what it imports."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes = list(ast.walk(tree))
        self.imported: dict[str, str] = {}
        """Full name by the name in the file."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.split(".")[0]
                    self.imported[alias.asname or whole] = whole
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def name(self, node: ast.AST) -> str:
        """Return the full dotted name of an expression, or an empty text."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node, self.name(node.func)

    def functions(self) -> list[ast.FunctionDef]:
        """Return the public functions of the file, without those of an operator."""
        return [
            node
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and node.name not in ("reference", "in_torch")
        ]

    def library_calls(self, function: str | None, names: frozenset[str]) -> list[Finding]:
        """Return the calls of kernels whose whole work is one call of a library; none if one of the
        kernels does more."""
        kernels = [node for node in self.functions() if function in (None, node.name)]
        kernels = [node for node in kernels if node.name in names] or kernels
        called = [self._only_call(node) for node in kernels]
        if not all(called):
            return []
        return [Finding(LIBRARY, at, f"it only calls {name}") for at, name in filter(None, called)]

    def _only_call(self, function: ast.FunctionDef) -> tuple[int, str] | None:
        """Return line and name of the only call of a function; None if it does more."""
        known = {
            each.arg
            for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        }
        called: list[tuple[int, str]] = []
        for statement in function.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # its docstring
            if isinstance(statement, ast.Return) and statement.value is None:
                continue
            if isinstance(statement, ast.Assign) and not all(map(_is_whole, statement.targets)):
                return None
            value = getattr(statement, "value", None)
            if not isinstance(statement, (ast.Return, ast.Assign, ast.Expr)) or value is None:
                return None
            if isinstance(value, ast.Name) and value.id in known:
                continue  # returns what it assigned
            name = self._library_call(value, known)
            if name is None:
                return None
            called += [(value.lineno, name)] if name else []
            if isinstance(statement, ast.Assign):
                known |= {each.id for each in statement.targets if isinstance(each, ast.Name)}
        return called[0] if len(called) == 1 else None

    def _library_call(self, node: ast.expr, known: set[str]) -> str | None:
        """Return the function that an expression calls on plain arguments; None for more work, and
        an empty text for a copy or a change of the view."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return (
                "@"
                if self._is_plain(node.left, known) and self._is_plain(node.right, known)
                else None
            )
        if not isinstance(node, ast.Call):
            return "" if self._is_plain(node, known) else None
        name = self.name(node.func)
        arguments = [*node.args, *(each.value for each in node.keywords)]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("copy_", "copyto"):
            (*_, last) = arguments or [node]
            return self._library_call(last, known)
        if not all(self._is_plain(each, known) for each in arguments):
            return None
        if name.split(".")[0] in LIBRARIES:
            return name
        method = isinstance(node.func, ast.Attribute) and self._is_plain(node.func.value, known)
        return f"the method {node.func.attr}" if method else None  # type: ignore[attr-defined]

    def _is_plain(self, node: ast.expr, known: set[str]) -> bool:
        """Return True for parameters, constants, and views of them."""
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            return self._is_plain(node.value, known) or bool(self.name(node))
        if isinstance(node, ast.UnaryOp):
            return self._is_plain(node.operand, known)
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(self._is_plain(each, known) for each in node.elts)
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in known)


def _is_whole(target: ast.expr) -> bool:
    """Return True for a name, and for all elements of an array."""
    if isinstance(target, ast.Subscript):
        part = target.slice
        is_all = isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None
        return is_all or (isinstance(part, ast.Constant) and part.value is ...)
    return isinstance(target, ast.Name)


def _calls_in_c(text: str) -> Iterator[Finding]:
    own = OWN_WORK.search(text) is not None
    for number, line in enumerate(text.splitlines(), 1):
        for called in CALLED.findall(line):
            yield Finding(
                "calls a library" if own else LIBRARY,
                number,
                f"it calls {called}" if own else f"it only calls {called}",
            )
        if EVENTS.fullmatch(line):
            yield Finding("clock", number, "it has to do with the clock of the device")


def _imports(module: Module, rule: str, names: Iterable[str], text: str) -> Iterator[Finding]:
    roots = set(names)
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [node.module]
        else:
            continue
        for name in found:
            if name.split(".")[0] in roots:
                yield Finding(rule, node.lineno, text.format(name))


def starts_others(module: Module) -> Iterator[Finding]:
    """Find threads and processes."""
    yield from _imports(module, "threads", THREADS, "imports {}: work beside the calls")
    for node, name in module.calls():
        if name in ("os.fork", "os.system", "os.popen", "os.posix_spawn"):
            yield Finding("threads", node.lineno, f"calls {name}")


def asks_others(module: Module) -> Iterator[Finding]:
    """Find what reaches other machines."""
    yield from _imports(module, "network", NETWORK, "imports {}: a kernel needs no network")


def reads_memory(module: Module) -> Iterator[Finding]:
    """Find what reaches memory that is not an argument's."""
    yield from _imports(module, "memory", MEMORY, "imports {}: it reaches what is not its own")


def looks_at_callers(module: Module) -> Iterator[Finding]:
    """Find what tells by whom it is called."""
    for node, name in module.calls():
        if name in STACK:
            yield Finding("stack", node.lineno, f"{name}: it looks at what calls it")


def uses_this_tool(module: Module) -> Iterator[Finding]:
    """Find imports of this tool beyond the decorator."""
    for node in module.nodes:
        names: list[str] = []
        if not isinstance(node, (ast.Import, ast.ImportFrom, ast.Constant)):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            plain = node.module == "bench_run" and {a.name for a in node.names} <= {"kernel"}
            names = [] if plain else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_path = node.value.startswith(("bench_run.", "bench_schema.", "bench-run-"))
            names = [node.value] if is_path else []
        for name in names:
            if name.split(".")[0].split("-")[0] in ("bench_run", "bench_schema", "bench"):
                yield Finding("tool", node.lineno, f"{name}: it has to do with what judges it")


def touches_clocks(module: Module) -> Iterator[Finding]:
    """Find clocks: a kernel that reads one may change it too."""
    for node in module.nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = module.name(node)
            if (name.startswith("time.") and CLOCKS.fullmatch(name)) or EVENTS.fullmatch(name):
                yield Finding("clock", node.lineno, f"{name}: a kernel needs no clock")


def replaces_others(module: Module) -> Iterator[Finding]:
    """Find attributes of modules that are set."""
    for node in module.nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute):
                owner = module.name(target.value)
                if owner.split(".")[0] in module.imported.values() and "backends" not in owner:
                    yield Finding("replaces", target.lineno, f"sets {owner}.{target.attr}")
    for node, name in module.calls():
        if name == "setattr" and node.args:
            yield Finding("replaces", node.lineno, "setattr: it replaces attributes")


def hides_code(module: Module) -> Iterator[Finding]:
    """Find code that is made at run time."""
    for node, name in module.calls():
        if name in HIDDEN or name == "importlib.import_module":
            yield Finding("hidden", node.lineno, f"{name}(): what it does is not in the file")


def keeps_answers(module: Module) -> Iterator[Finding]:
    """Find what stays from call to call: caches, and values in containers of the module."""
    kept = {
        target.id
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Dict, ast.List, ast.Set))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for function in module.functions():
        for decorator in function.decorator_list:
            inner = decorator.func if isinstance(decorator, ast.Call) else decorator
            if module.name(inner) in KEPT:
                yield Finding("keeps", decorator.lineno, f"{module.name(inner)}: it keeps answers")
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield Finding("keeps", node.lineno, f"keeps {', '.join(node.names)} between calls")
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                name = node.value.id if isinstance(node.value, ast.Name) else ""
                if name in kept:
                    yield Finding("keeps", node.lineno, f"keeps values in {name} between calls")


def leaves_inputs(module: Module) -> Iterator[Finding]:
    """Find parameters without a default that nothing reads."""
    for function in module.functions():
        read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        for each in function.args.args:
            if each.arg not in read:
                yield Finding(
                    "unused", function.lineno, f"{function.name} does not read {each.arg}"
                )


def falls_back(module: Module) -> Iterator[Finding]:
    """Find errors that are caught to do something else."""
    for node in module.nodes:
        if isinstance(node, ast.Try):
            yield Finding(
                "falls back", node.lineno, "catches errors: what runs may be the fallback"
            )


def uses_streams(module: Module) -> Iterator[Finding]:
    """Find other streams of the device, whose work may not be timed."""
    for node, name in module.calls():
        if re.search(r"(^|\.)cuda\.(Stream|stream|ExternalStream)$", name):
            yield Finding("streams", node.lineno, f"{name}: work beside the stream that is timed")


def reads_files(module: Module) -> Iterator[Finding]:
    """Find files that are opened."""
    for node, name in module.calls():
        if name in ("open", "io.open", "os.open", "numpy.load", "torch.load", "glob.glob"):
            yield Finding("files", node.lineno, f"{name}: a kernel needs no file")


RULES: tuple[Callable[[Module], Iterator[Finding]], ...] = (
    *(starts_others, asks_others, reads_memory, looks_at_callers, uses_this_tool, touches_clocks),
    *(replaces_others, hides_code, keeps_answers, leaves_inputs, falls_back, uses_streams),
    reads_files,
)
