"""The command line of bench-run: words into a command, its answer into an exit code."""

from __future__ import annotations

import os
import signal
import sys
from errno import ENAMETOOLONG

from bench_schema.streams import write_text

from bench_run.commands import ALIASES, COMMANDS, DEFAULT, Outcome
from bench_run.text import visible

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


AGAIN_S = 0.005
"""After which a dropped interrupt comes again, by an alarm."""


def entry() -> None:
    """The console script."""
    open_standard_descriptors()
    stop_like_an_interrupt()
    sys.exit(main(sys.argv[1:]))


def open_standard_descriptors() -> None:
    """Where stdin, stdout or stderr is closed, a file or pipe of ours must not take its number:
    what a library prints would go there."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def stop_like_an_interrupt() -> None:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, unless the parent process ignores them."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    sys.unraisablehook = interrupt_again


def interrupt_again(dropped: sys.UnraisableHookArgs) -> None:
    """Python drops an interrupt that comes while something is collected, or in a callback of an
    import: it comes once more, a little later."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    else:
        sys.__unraisablehook__(dropped)


def main(argv: Sequence[str]) -> int:
    """Exit code for these words. The answer goes to stdout, messages to stderr; bad input is one
    line there, never a traceback."""
    command, words = _command(argv)
    if "--help" in words or "-h" in words:
        from bench_run.commands.help import page

        return _say(page(command))  # before anything heavy is imported
    try:
        return _guarded(command, words)
    except KeyboardInterrupt:
        _complain("interrupted")
        return 1


def _command(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command's name, and the words after it."""
    if argv and argv[0] in COMMANDS:
        return argv[0], argv[1:]
    for flag, name in ALIASES.items():
        if flag in argv:
            return name, [word for word in argv if word != flag]
    return DEFAULT, argv


def _guarded(command: str, words: Sequence[str]) -> int:
    from importlib import import_module

    from docopt import DocoptExit, docopt

    module: Any = import_module(COMMANDS[command])
    spoken = words if command == DEFAULT else [command, *words]
    try:
        arguments = docopt(module.USAGE, argv=list(spoken), default_help=False)
    except DocoptExit:
        return _usage_error(command, words, module.USAGE)
    if arguments.get("--version"):
        from bench_run.runner.benchmark import VERSION

        return _say(f"bench-run {VERSION}")
    mistake = _mistake(arguments)
    if mistake is not None:
        _complain(mistake)
        return 1
    return _answered(module, arguments)


def _usage_error(command: str, words: Sequence[str], usage: str) -> int:
    """One line that names what is wrong."""
    from bench_run.commands.help import bad_flag

    general = f"invalid arguments: {' '.join(words) or '(none)'}; see bench-run {command} --help"
    _complain(bad_flag(command, words, usage) or general)
    return 1


def _mistake(arguments: dict[str, Any]) -> str | None:
    if not arguments.get("GRAPH"):
        return None
    from bench_run.commands.help import mistaken_command

    return mistaken_command(arguments["GRAPH"])


def _answered(module: Any, arguments: dict[str, Any]) -> int:
    from bench_schema.errors import DocumentError

    from bench_run.errors import BenchRunError

    try:
        outcome: Outcome = module.answer(arguments)
    except (BenchRunError, DocumentError) as error:
        _complain(str(error))
        return 1
    except OSError as error:
        if error.errno != ENAMETOOLONG:
            raise
        _complain(f"{error.filename}: the name is too long for a file")  # wherever it was given
        return 1
    said = _say(outcome.text) if outcome.text else 0
    for remark in outcome.remarks:
        _complain(remark)
    return outcome.exit_code or said


def _say(text: str) -> int:
    """Put the answer on stdout; the exit code of that."""
    problem = write_text(sys.stdout, visible(text if text.endswith("\n") else text + "\n"))
    if problem is None:
        return 0
    _complain(f"cannot write to stdout: {problem}")
    return 1


def _complain(sentence: str) -> None:
    write_text(sys.stderr, f"bench-run: {visible(' '.join(sentence.split()))}\n")
