"""hyperfine: ``--export-json``. Each time is that of a process of its own. A command is an engine,
its parameters are the case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bench_schema.document import COMPLETED, Outcome

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.values import rows, samples, summary, table

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

    from bench_compare.input.tools.values import Table

ENDED = "exit code "
"""Beginning of the note on a run that did not end with 0."""


def sniff(tree: Any) -> str | None:
    every = rows(table(tree).get("results"))
    return "json" if every and all("command" in row and "mean" in row for row in every) else None


def read(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    measured = [_case(one) for one in rows(tree["results"])]
    return document(About("hyperfine", layout, timer="wall time"), measured)


def _case(one: Table) -> Measured:
    command, given = str(one.get("command")).strip(), table(one.get("parameters"))
    command, parameters = _without_parameters(command, given)
    name = " ".join(f"{key}={value}" for key, value in parameters.items()) or "command"
    known = {key: one.get(key) for key in ("median", "mean", "min", "max")}
    times = samples(one.get("times") or (), "s")
    total = summary({**known, "std": one.get("stddev"), "n": times.size}, "s")
    codes = [code for code in one.get("exit_codes") or () if code != 0]
    said = "was ended by a signal" if None in codes else f"ended with {ENDED}{(*codes, 0)[0]}"
    outcome = Outcome("failed", f"a run {said}") if codes else COMPLETED
    return Measured(
        name,
        **series("e2e_ns", [times[n : n + 1] for n in range(times.size)], total),
        outcome=outcome,
        engine=command.replace("@", " at "),
        flags=tuple(sorted({f"{ENDED}{code}" for code in codes})),
    )


def _without_parameters(command: str, given: Table) -> tuple[str, dict[str, str]]:
    """Return a command with the names of its parameters in place of their values, and the
    parameters. One that names the program is not a parameter of the case."""
    parameters = {}
    for key, value in given.items():
        written = str(value)
        if written and command.split(" ")[0] == written:
            continue
        parameters[key] = written
        word = rf"(?<![\w.]){re.escape(written)}(?![\w.])"
        named = re.compile(rf"(?<!\w)({re.escape(key)}[ =]?){word}")
        command, count = named.subn(rf"\g<1>{{{key}}}", command, count=1)
        if not count and written:
            command = re.sub(word, f"{{{key}}}", command, count=1)
    return command, parameters
