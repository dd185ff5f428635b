"""Workflows for a repository of the user's: a gate of pull requests, and a nightly archive."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_run.errors import UsageError
from bench_run.files import write_new

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(".github/workflows")
FILES = {"gate.yml": "bench-gate.yml", "nightly.yml": "bench-nightly.yml"}
"""Template to the name in the repository."""
THRESHOLD, RUNNER = "2%", "ubuntu-latest"
PACKAGE = "git+https://github.com/OWNER/dnn-bench"
SIDES = ("base", "head")
VENV = ".bench-venv"
PROJECT = "pyproject.toml"


class Subject(NamedTuple):
    """The thing in the repository that is measured."""

    base: str
    """Engine spec of the base, relative to the folder that holds both sides."""
    head: str
    path: str
    """File or folder that a side has if it can be measured."""
    build: str
    """Shell command that builds a side; empty: nothing to build."""


def workflows(arguments: Mapping[str, Any]) -> list[str]:
    """Write both workflows and return lines on them. Raises `UsageError` for words that no workflow
    can be made of, and `OutputError` for files that are there."""
    root = Path(arguments["--output"] or ".")
    if arguments["--engine"] is None:
        raise UsageError("init ci: what is measured? --engine kernel@FILE.py, hipdnn@DIR or torch")
    subject = _subject(arguments["--engine"], arguments["--build"] or "", root)
    texts = {}
    for template, name in FILES.items():
        text = (Path(__file__).parent / template).read_text(encoding="utf-8")
        sides = SIDES if template == "gate.yml" else SIDES[1:]
        values = {
            "SPEC": arguments["--engine"],
            "THRESHOLD": arguments["--threshold"] or THRESHOLD,
            "PACKAGE": arguments["--package"] or PACKAGE,
            "RUNNER": arguments["--runner"] or RUNNER,
            "BASE": subject.base,
            "HEAD": subject.head,
            "SUBJECT": shlex.quote(subject.path),
            "WORK": _work(arguments["--op"], arguments["GRAPH"], root),
            "BUILD": _build_step(subject.build, sides),
        }
        for key, value in values.items():
            text = text.replace(f"@@{key}@@", value)
        texts[str(FOLDER / name)] = text
    write_new(root, texts, force=arguments["--force"])
    lines = [f"wrote {' and '.join(str(root / name) for name in texts)}; now"]
    if PACKAGE in texts[str(FOLDER / FILES["gate.yml"])]:
        lines.append("  write in both, as PACKAGE, what pip installs to get this tool")
    return [
        *lines,
        "  commit them, and run 'bench gate' by hand once: it measures one commit against",
        "    itself, and says which THRESHOLD this kind of runner can hold",
        "  allow Pages to be published by Actions, for the nightly pages",
    ]


def _subject(spec: str, build: str, root: Path) -> Subject:
    """Return the engine of each side. Raises `UsageError` for a path that is not in the
    repository."""
    from bench_run.engines.spec import parse_spec

    parse_spec(spec)
    engine, has_path, path = spec.partition("@")
    if not has_path:
        python = f"+python={{}}/{VENV}/bin/python"
        base, head = (engine + python.format(side) for side in SIDES)
        own = f'python -m venv {VENV} && {VENV}/bin/python -m pip install -q . "$PACKAGE"'
        return Subject(base, head, PROJECT, " && ".join([*([build] if build else []), own]))
    file, behind, options = path.partition("+")
    if Path(file).is_absolute() or ".." in Path(file).parts:
        raise UsageError(f"--engine: {file}: a path inside the repository is needed, from its root")
    if not build and not (root / file).exists():
        raise UsageError(
            f"--engine: {root / file}: not there; call this at the root of the repository, or give "
            "the command that makes it: --build 'make'"
        )
    base, head = (f"{engine}@{side}/{file}{behind}{options}" for side in SIDES)
    # A file that a build makes is never there beforehand: its source decides nothing.
    return Subject(base, head, file if not build else ".", build)


def _work(ops: list[str], graphs: list[str], root: Path) -> str:
    """Return the words of bench-run that select the measurement. Raises `UsageError` if there are
    none, and the errors of a run for unknown operations and graphs."""
    from bench_run.options import Options, Sources, grouped
    from bench_run.plan.load import gather

    if not ops and not graphs:
        raise UsageError("init ci: on which cases? Give --op 'relu: dims=1024x1024', or graphs")
    there = tuple(str(root / one) if (root / one).exists() else one for one in graphs)
    gather(grouped(Sources, Options(graphs=there, op=tuple(ops))))
    words = [word for op in ops for word in ("--op", op)]
    words += [f"head/{graph}" if (root / graph).exists() else graph for graph in graphs]
    return shlex.join(words)


def _build_step(build: str, sides: tuple[str, ...]) -> str:
    """Return a step in YAML that builds each side; empty if there is nothing to build."""
    if not build:
        return ""
    each = "\n".join(f"          (cd {side} && {build})" for side in sides)
    return f"\n      - name: Build\n        run: |\n{each}\n"
