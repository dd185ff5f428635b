"""The command line of bench-run: words into a command, its answer into an exit code."""

from __future__ import annotations

import os
import signal
import sys

from bench_schema.streams import refusal, write_text
from bench_schema.version import package_version

from bench_run.commands import ALIASES, COMMANDS, DEFAULT, CommandOutput
from bench_run.text import visible

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


AGAIN_S = 0.005
"""After which a dropped interrupt comes again, by an alarm."""


def entry() -> None:
    """Run the console script."""
    open_standard_descriptors()
    stop_like_an_interrupt()
    sys.exit(main(sys.argv[1:]))


def open_standard_descriptors() -> None:
    """Open /dev/null for a closed stdin, stdout or stderr, so that no file or pipe of ours gets its
    number, into which a library would print."""
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
    """Interrupt again a little later: Python drops an interrupt that comes while something is
    collected, or in a callback of an import."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    else:
        sys.__unraisablehook__(dropped)


def main(argv: Sequence[str]) -> int:
    """Run the command that these words name; return the exit code. The answer goes to stdout,
    messages to stderr; bad input is one line there, never a traceback."""
    if list(argv) == ["--version"]:
        return _say(f"bench-run {package_version()}")
    command, words = _command(argv)
    if "--help" in words or "-h" in words:
        from bench_run.commands.help import page

        return _say(page(command))  # before anything heavy is imported
    try:
        return _answer(command, words)
    except KeyboardInterrupt:
        _complain("interrupted")
    except OSError as error:  # an unexpected refusal of the system
        _complain(refusal(error))
    except MemoryError:
        _complain("the host has no memory left for this")
    return 1


def _command(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command's name, and the words after it."""
    if argv and argv[0] in COMMANDS:
        return argv[0], argv[1:]
    for flag, name in ALIASES.items():
        if flag in argv:
            return name, [word for word in argv if word != flag]
    return DEFAULT, argv


def _answer(command: str, words: Sequence[str]) -> int:
    """Ask the command's module, and put its answer where it belongs."""
    from importlib import import_module

    from docopt import DocoptExit, docopt

    module: Any = import_module(COMMANDS[command])
    spoken = words if command == DEFAULT else [command, *words]
    try:
        arguments = docopt(module.USAGE, argv=list(spoken), default_help=False)
    except DocoptExit:
        from bench_run.commands.help import bad_words

        return _complain(bad_words(command, words, module.USAGE))
    if arguments.get("--version"):
        return _say(f"bench-run {package_version()}")
    if arguments.get("GRAPH"):
        from bench_schema.usage import mistaken_command

        mistake = mistaken_command(arguments["GRAPH"], COMMANDS, "bench-run")
        if mistake is not None:
            return _complain(mistake)
    from bench_run.commands.mistakes import mistaken_model, mistaken_words

    mistake = mistaken_words(command, arguments) or mistaken_model(arguments.get("MODEL"))
    if mistake is not None:
        return _complain(mistake)
    from bench_schema.errors import DocumentError

    from bench_run.errors import BenchRunError

    try:
        output: CommandOutput = module.answer(arguments)
    except (BenchRunError, DocumentError) as error:
        return _complain(str(error))
    said = _say(output.text, output.is_styled) if output.text else 0
    for remark in output.remarks:
        _complain(remark)
    return output.exit_code or said


def _say(text: str, is_styled: bool = False) -> int:
    """Put the answer on stdout; the exit code of that."""
    text = text if text.endswith("\n") else text + "\n"
    problem = write_text(sys.stdout, text if is_styled else visible(text))
    if problem is None:
        return 0
    return _complain(f"cannot write to stdout: {problem}")


def _complain(sentence: str) -> int:
    """Put a line on stderr; the exit code of what is wrong."""
    write_text(sys.stderr, f"bench-run: {visible(' '.join(sentence.split()))}\n")
    return 1
