"""The command line of bench-compare: words into options, a comparison into an exit code."""

from __future__ import annotations

import gc
import os
import sys
from errno import ENAMETOOLONG
from importlib import import_module
from typing import TYPE_CHECKING

from bench_schema.streams import GONE, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.commands.outcome import CommandResult

COMMANDS: dict[str, str] = {
    "compare": "bench_compare.commands.compare",
    "history": "bench_compare.commands.history",
    "compose": "bench_compare.commands.compose",
}
"""First word of the command line to the module that answers it: a text ``USAGE`` for docopt and
``answer(arguments, width, terminal) -> CommandResult``, whose heavy imports are inside functions.
Without such a word documents are compared; a file or folder of that name is given as ``./compare``.
"""
DEFAULT = "compare"
LEAST_COLUMNS = 40


def entry() -> None:
    """The console script."""
    gc.disable()  # values live to the end: 4,000 cases are compared in 1.7 s instead of 2.1 s
    code, outcome = _answered(sys.argv[1:])
    if outcome is not None:  # all is written: to take large values apart would take 0.2 s
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Exit code for these words. The answer goes to stdout, messages to stderr; bad input is one
    line there, never a traceback."""
    return _answered(argv)[0]


def _answered(argv: Sequence[str]) -> tuple[int, CommandResult | None]:
    """The outcome holds all that was read and made; None where there is none."""
    named = bool(argv) and argv[0] in COMMANDS
    name = argv[0] if named else DEFAULT
    words = argv[1:] if named and name == DEFAULT else argv  # those that its usage describes
    module = import_module(COMMANDS[name])
    try:
        if "--help" in words or "-h" in words:
            return int(not _say(module.USAGE)), None
        from bench_schema.errors import DocumentError
        from docopt import DocoptExit, docopt

        from bench_compare.errors import BenchCompareError

        try:
            arguments = docopt(module.USAGE, argv=list(words), default_help=False)
        except DocoptExit:
            _complain(f"invalid arguments: {' '.join(words) or '(none)'}; see --help")
            return 1, None
        if arguments["--version"]:
            from importlib.metadata import version

            return int(not _say(f"bench-compare {version('dnn-bench')}")), None
        terminal = sys.stdout is not None and sys.stdout.isatty()
        try:
            from shutil import get_terminal_size  # COLUMNS, else the terminal's, else 80

            width = max(get_terminal_size((80, 24)).columns, LEAST_COLUMNS)
            outcome: CommandResult = module.answer(arguments, width, terminal)
        except (BenchCompareError, DocumentError) as error:
            _complain(str(error))
            return 1, None
        except OSError as error:
            if error.errno != ENAMETOOLONG:
                raise
            _complain(f"{error.filename}: the name is too long for a file")  # wherever it was given
            return 1, None
        for remark in outcome.remarks:
            _complain(remark)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            stream = sys.stderr if outcome.is_document else sys.stdout
            write_text(stream, _annotation(outcome))
        said = _say(outcome.text)
        return (outcome.conclusion.exit_code if said else 1), outcome
    except KeyboardInterrupt:
        _complain("interrupted")
    return 1, None


def _annotation(outcome: CommandResult) -> str:
    """The line as a command of GitHub's workflows, which shows it beside the job."""
    conclusion = outcome.conclusion
    level = "error" if conclusion.exit_code else "notice"
    text = conclusion.line
    if conclusion.hint is not None:
        text += f"\nto decide: {conclusion.hint}"
    signs = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    shown = "".join(signs.get(sign, sign if sign.isprintable() else "�") for sign in text)
    return f"::{level}::{shown}\n"


def _say(text: str) -> bool:
    """Whether it could be put on stdout. A reader that has seen enough is nothing to tell."""
    problem = write_text(sys.stdout, text if text.endswith("\n") else f"{text}\n")
    if problem not in (None, GONE):
        _complain(f"cannot write to stdout: {problem}")
    return problem is None


def _complain(sentence: str) -> None:
    """One line on stderr, whatever the sentence holds."""
    line = " ".join(sentence.split())
    shown = "".join(sign if sign.isprintable() else "�" for sign in line)
    write_text(sys.stderr, f"bench-compare: {shown}\n")
