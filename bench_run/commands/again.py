"""The command line of a run, repeated: what ``--rerun-from`` takes from a result document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_schema.errors import DocumentError
from bench_schema.files import read
from bench_schema.identity import REPEATS

from bench_run.commands import COMMANDS, DEFAULT
from bench_run.errors import UsageError
from bench_run.plan.rerun import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_schema.document import Document

GRAPH_WORDS = ("GRAPH", "--graph", "--op", "--miopen-driver", "--benchdnn")
ENGINE_WORDS = ("--engine", "--engine-id", "--a", "--b", "--AId", "--APath", "--BId", "--BPath")
TOGETHER = (ENGINE_WORDS, ("--rounds", "--until"))
"""Flags of which a person gives all anew, or none."""
LEFT_OUT = (
    *("--output", "--csv", "--csv-samples", "--markdown", "--trace", "--save-graphs"),
    *("--save-suite", "--write-golden", "--save-outputs", "--resume", "--force", "--dry-run"),
    *("--quiet", "--verbose"),
)


def repeated(given: Mapping[str, Any], usage: str) -> Mapping[str, Any]:
    """Return docopt's dictionary, where what is not given is as in the command line of the document
    that ``--rerun-from`` names, but for what that wrote and said. Raises `UsageError`."""
    source = given["--rerun-from"]
    if any(given[word] for word in GRAPH_WORDS):
        if read_record(source) is None:
            text = "a result document names its graphs; give no other"
            raise UsageError(f"--rerun-from: {source}: {text}")
        return given
    seen: list[str] = []
    repeats: list[str] = []
    is_same = not any(given[word] for word in (*ENGINE_WORDS, "--label"))
    while source is not None and (path := _document_of(source)) is not None:
        if path in seen:
            raise UsageError(f"--rerun-from: {path}: a repeat of itself; name GRAPH")
        document = _document_at(path)
        before = _arguments_of(path, document, usage)
        if is_same and not seen:
            repeats.append(f"{REPEATS}={document.run.id}")
        seen.append(path)
        for together in TOGETHER:
            if any(given[word] for word in together):
                before |= dict.fromkeys(together)
        if given["--until"]:  # takes as many iterations as decide
            before["--iters"] = None
        source = before["--rerun-from"]
        first = source or given["--rerun-from"]  # which says what was measured
        given = {name: given[name] or value for name, value in before.items()}
        given |= {"--rerun-from": first}
    return {**given, "--tag": [*given["--tag"], *repeats]}


def _document_of(path: str) -> str | None:
    """Return the document to measure again; None for the report of a history, which has many."""
    record = read_record(path)
    if record is None:
        return path
    others = record.get("others")
    return others[-1]["documents"][-1]["path"] if others else None


def _document_at(path: str) -> Document:
    try:
        return read(path)
    except DocumentError as error:
        raise UsageError(f"--rerun-from: {error}") from None


def _arguments_of(path: str, document: Document, usage: str) -> dict[str, Any]:
    """Return docopt's dictionary of a document's command line; of all shards if it was merged."""
    from docopt import DocoptExit, docopt

    run = document.run
    words = run.command[2:] if run.command[1:2] == (DEFAULT,) else run.command[1:]
    if not run.command or run.tool.name != "bench-run" or (words and words[0] in COMMANDS):
        known = " ".join(run.command[:2]) or "another tool"
        raise UsageError(f"--rerun-from: {path}: not a run of graphs, {known} wrote it; name GRAPH")
    try:
        found = docopt(usage, argv=list(words), default_help=False)
    except DocoptExit:
        text = " ".join(words)
        raise UsageError(f"--rerun-from: {path}: not a command line of today: {text}") from None
    left_out = (*LEFT_OUT, "--shard") if document.parts else LEFT_OUT
    return {**found, **dict.fromkeys(left_out)}
