"""Diagnosis of flags that nothing reads: each is reported, none is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bench_compare.options import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Arguments = Mapping[str, Any]
    """Arguments from docopt: None, False or [] is an absent flag."""

FORMATS = tuple(f"--{name}" for name in OUTPUTS)
CHOICES = ("--all", "--sort", "--filter")
SIDES = ("--group-by", "--base")
VERDICTS = (
    *("--metric", "--fail-on", "--require-sensitivity", "--max-unclear", "--allow", "--strict"),
    *("--calibration", "--archive"),
)


def _has_table(arguments: Arguments) -> bool:
    return all(arguments[flag] != "-" for flag in FORMATS)


class Reader(NamedTuple):
    """Flags that need a reader, its condition, and the sentence for its absence."""

    flags: tuple[str, ...]
    is_there: Callable[[Arguments], bool]
    why_not: str


READERS = (
    Reader(
        (*FORMATS, *CHOICES, *VERDICTS, "--label", "--color", "--plotlyjs"),
        lambda arguments: not arguments["--aa"],
        "--aa takes all documents for one build and says its rate of false alarms, nothing else",
    ),
    Reader(SIDES, lambda arguments: not arguments["--a"], "--a and --b say what the sides are"),
    Reader(("--plotlyjs",), lambda arguments: bool(arguments["--html"]), "it works with --html"),
    Reader(("--color",), _has_table, "a report goes to stdout, in place of the table"),
    Reader(
        CHOICES,
        lambda arguments: not arguments["--quiet"] or any(arguments[flag] for flag in FORMATS),
        "--quiet shows no cases, and no report is written",
    ),
)


def without_effect(arguments: Arguments) -> Iterator[str]:
    """Yield a sentence for each flag that nothing reads, with the first reason."""
    told = set()
    for flags, is_there, why_not in READERS:
        if not is_there(arguments):
            for flag in flags:
                if arguments[flag] and flag not in told:
                    told.add(flag)
                    yield f"{flag} has no effect: {why_not}"
