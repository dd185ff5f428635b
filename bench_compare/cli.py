"""The command line of bench-compare: words into options, a comparison into an exit code."""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench_schema.streams import GONE, refusal, write_text
from bench_schema.version import package_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.commands.outcome import CommandResult
    from bench_compare.model import Conclusion

COMMANDS: dict[str, str] = {
    "compare": "bench_compare.commands.compare",
    "history": "bench_compare.commands.history",
    "compose": "bench_compare.commands.compose",
    "export": "bench_compare.commands.export",
    "pages": "bench_compare.commands.pages",
    "help": "bench_compare.commands.help",
}
"""First word of the command line to the module that answers it: a text ``USAGE`` for docopt and
``answer(arguments, width, terminal) -> CommandResult``, whose heavy imports are inside functions.
Without such a word documents are compared; a file or folder of that name is given as ``./compare``.
"""
DEFAULT = "compare"
LEAST_COLUMNS = 40


def entry() -> None:
    """Run the console script."""
    gc.disable()  # values live to the end: 4,000 cases are compared in 1.7 s instead of 2.1 s
    code, outcome = _answered(sys.argv[1:])
    if outcome is not None:  # all is written: to take large values apart would take 0.2 s
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Return the exit code for these words. The answer goes to stdout, messages to stderr; bad
    input is one line there, never a traceback."""
    return _answered(argv)[0]


def _answered(argv: Sequence[str]) -> tuple[int, CommandResult | None]:
    """Run the command line; return the exit code, and the outcome with all that was read and made,
    if there is one."""
    if argv and {*argv} <= {"--version", *COMMANDS} and argv[-1] == "--version":
        return int(not _say(f"bench-compare {package_version()}")), None
    named = bool(argv) and argv[0] in COMMANDS
    name = argv[0] if named else DEFAULT
    words = argv[1:] if named and name == DEFAULT else argv  # those that its usage describes
    module = import_module(COMMANDS[name])
    try:
        if "--help" in words or "-h" in words:
            return int(not _say(module.USAGE)), None
        from bench_schema.errors import DocumentError

        from bench_compare.errors import BenchCompareError

        arguments = _parsed(name, words, module.USAGE)
        if isinstance(arguments, str):
            _complain(arguments)
            return 1, None
        terminal = sys.stdout is not None and sys.stdout.isatty()
        try:
            from shutil import get_terminal_size  # COLUMNS, else the terminal's, else 80

            width = max(get_terminal_size((80, 24)).columns, LEAST_COLUMNS)
            outcome: CommandResult = module.answer(arguments, width, terminal)
        except (BenchCompareError, DocumentError) as error:
            _complain(str(error))
            return 1, None
        except OSError as error:  # an unexpected refusal of the system
            _complain(refusal(error))
            return 1, None
        except MemoryError:
            _complain("the host has no memory left for this")
            return 1, None
        for remark in outcome.remarks:
            _complain(remark)
        conclusion = outcome.conclusion
        if conclusion is not None and os.environ.get("GITHUB_ACTIONS") == "true":
            stream = sys.stderr if outcome.is_document else sys.stdout
            write_text(stream, _annotation(conclusion))
        code = 0 if conclusion is None else conclusion.exit_code
        return (code if _say(outcome.text) else 1), outcome
    except KeyboardInterrupt:
        _complain("interrupted")
    return 1, None


def _parsed(command: str, words: Sequence[str], usage: str) -> dict[str, Any] | str:
    """Return docopt's arguments, or a sentence on the mistake in the words."""
    from bench_schema.usage import bad_flag, mistaken_command, unknown_flag
    from docopt import DocoptExit, docopt

    from bench_compare.commands.mistakes import FLAGS, mistaken_word

    try:
        arguments = docopt(usage, argv=list(words), default_help=False)
    except DocoptExit:
        see = "bench-compare --help" if command == DEFAULT else f"bench-compare {command} --help"
        general = f"invalid arguments: {' '.join(words) or '(none)'}; see {see}"
        unknown = partial(unknown_flag, see=see, of_others=FLAGS)
        return bad_flag(words, usage, see, unknown) or general
    documents = arguments["DOC"] if command == DEFAULT else ()
    mistake = mistaken_word(documents) or mistaken_command(documents, COMMANDS, "bench-compare")
    return mistake or dict(arguments)


def _annotation(conclusion: Conclusion) -> str:
    """Return the line as a command of GitHub's workflows, which shows it beside the job."""
    level = "error" if conclusion.exit_code else "notice"
    if conclusion.word == "UNDECIDED" and conclusion.allowed:
        level = "warning"
    text = conclusion.line
    if conclusion.hint is not None:
        text += f"\nto decide: {conclusion.hint}"
    signs = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    shown = "".join(signs.get(sign, sign if sign.isprintable() else "�") for sign in text)
    return f"::{level}::{shown}\n"


def _say(text: str) -> bool:
    """Write to stdout; return True if that succeeds. A failure is reported on stderr, except a
    closed pipe: its reader has seen enough."""
    problem = write_text(sys.stdout, text if text.endswith("\n") else f"{text}\n")
    if problem not in (None, GONE):
        _complain(f"cannot write to stdout: {problem}")
    return problem is None


def _complain(sentence: str) -> None:
    """Print one line on stderr, whatever the sentence contains."""
    line = " ".join(sentence.split())
    shown = "".join(sign if sign.isprintable() else "�" for sign in line)
    write_text(sys.stderr, f"bench-compare: {shown}\n")
