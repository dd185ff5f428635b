"""The commands of `bench-run`: one module each."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from bench_schema.document import Document

COMMANDS = {
    "run": "bench_run.commands.run",
    "doctor": "bench_run.commands.doctor",
    "engines": "bench_run.commands.engines",
    "coverage": "bench_run.commands.coverage",
    "describe": "bench_run.commands.describe",
    "import": "bench_run.commands.import_model",
    "merge": "bench_run.commands.merge",
    "tune": "bench_run.commands.tune",
    "init": "bench_run.commands.init",
    "judge": "bench_run.commands.judge",
    "help": "bench_run.commands.help",
}
"""First word of the command line to the module that answers it: a text ``USAGE`` for docopt, and
``answer(arguments) -> CommandOutput``. Importing the module must be cheap: its heavy imports are
inside of functions. A file or folder with a command's name is given as ``./engines``."""

DEFAULT = "run"
"""The command when the first word names none."""

ALIASES = {
    "--list-engines": "engines",
    "--coverage": "coverage",
    "--describe": "describe",
}
"""Flags that stand for a command, wherever they occur."""


class CommandOutput:
    """Answer of a command. Not a dataclass: help is an answer too, and would take twice as long."""

    def __init__(
        self,
        text: str,
        exit_code: int = 0,
        remarks: tuple[str, ...] = (),
        *,
        is_styled: bool = False,
    ) -> None:
        self.is_styled = is_styled
        """True if the text holds the codes of colours."""
        self.text = text
        """Text for stdout, or empty."""
        self.exit_code = exit_code
        self.remarks = remarks
        """Lines for stderr, after the text."""


def command_line() -> tuple[str, ...]:
    """Return the words of this process, as they are typed in a shell."""
    return ("bench-run", *sys.argv[1:])


def said_once(document: Document, start: str) -> dict[str, None]:
    """Return the cases' notes with this start, without repeats."""
    notes = (note for case in document.cases for note in case.notes)
    return dict.fromkeys(note for note in notes if note.startswith(start))
