"""How far a value goes: the functions that are given it whole, and the fields they read.

Usage:
  walks.py [<walk>...]

A walk is FILE:FUNCTION:ARGUMENT, such as worker/run_case.py:run_case:request. From a function on,
an argument is followed through the source: into each function of the packages that is called with
it under its own name, and through the attribute in which a class keeps it. A function that reads
three of its fields and passes it on to two others cannot be changed without those. Prints the
number of functions, and that of the places where a field is read.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.benchmarks.harness import script

ROOT = Path(__file__).resolve().parents[2]
WALKS = ("runner/benchmark.py:run_benchmark:options", "worker/run_case.py:run_case:request")


class Sources:
    """The functions and classes of a package, by module and name."""

    def __init__(self, package):
        self.package, self.trees = package, {}
        for path in package.rglob("*.py"):
            module = ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
            self.trees[module.removesuffix(".__init__")] = ast.parse(path.read_text())

    def defined(self, module, name):
        """The module and the node of a name in a module, through imports."""
        tree = self.trees.get(module)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                return module, node
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        if f"{node.module}.{alias.name}" in self.trees:
                            return f"{node.module}.{alias.name}", None
                        return self.defined(node.module, alias.name)
        return None

    def called(self, module, call):
        """Where a call goes: a module, a function, and 1 for a method of an object."""
        if isinstance(call.func, ast.Name):
            found = self.defined(module, call.func.id)
        elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            found = self.defined(module, call.func.value.id)
            if found is not None and found[1] is None:
                found = self.defined(found[0], call.func.attr)
            elif found is not None and isinstance(found[1], ast.ClassDef):
                return found[0], _method(found[1], call.func.attr), 1
        else:
            found = None
        if found is None or found[1] is None:
            return None
        module, node = found
        if isinstance(node, ast.ClassDef):
            return module, _method(node, "__init__"), 1
        return module, node, 0


def _method(node, name):
    return next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


class Walk:
    """The functions that a value reaches."""

    def __init__(self, sources):
        self.sources, self.seen, self.reads = sources, set(), defaultdict(set)

    def follow(self, module, function, argument, owner=None):
        """Follow a name in a function: an argument, or an attribute such as `self._options`."""
        key = module, getattr(owner, "name", ""), function.name, argument
        if key in self.seen:
            return
        self.seen.add(key)
        is_it = lambda node: ast.unparse(node) == argument  # noqa: E731
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and is_it(node.value):
                self.reads[key].add((node.lineno, node.col_offset, node.attr))
            if isinstance(node, ast.Call):
                self._call(module, node, is_it)
            is_kept = isinstance(node, ast.Assign) and function.name == "__init__"
            if is_kept and owner is not None:
                self._keep(module, node, is_it, owner)

    def _call(self, module, call, is_it):
        target = self.sources.called(module, call)
        if target is None or target[1] is None:
            return
        other, function, skipped = target
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][skipped:]
        given = [n for n, value in zip(names, call.args, strict=False) if is_it(value)]
        given += [k.arg for k in call.keywords if k.arg and is_it(k.value)]
        owner = self._owner(other, function)
        for name in given:
            self.follow(other, function, name, owner)

    def _owner(self, module, function):
        for node in ast.walk(self.sources.trees[module]):
            if isinstance(node, ast.ClassDef) and function in node.body:
                return node
        return None

    def _keep(self, module, node, is_it, owner):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if is_it(value):
                    for method in owner.body:
                        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                            text = ast.unparse(name)
                            if text in ast.unparse(method):
                                self.follow(module, method, text, owner)


def main(walk: list[str]) -> None:
    sources = Sources(ROOT / "bench_run")
    for word in walk or WALKS:
        path, name, argument = word.split(":")
        module = f"bench_run.{path.removesuffix('.py').replace('/', '.')}"
        found = sources.defined(module, name)
        if found is None:
            raise SystemExit(f"{word}: no such function")
        way = Walk(sources)
        way.follow(module, found[1], argument)
        reads = sum(map(len, way.reads.values()))
        print(f"{name}:{argument} reaches {len(way.seen)} functions, {reads} reads of a field")
        if walk:
            for key in sorted(way.seen):
                print("  ", ".".join(filter(None, key[:3])), key[3], len(way.reads[key]))


if __name__ == "__main__":
    script(main)
