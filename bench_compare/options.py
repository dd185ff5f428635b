"""Options of the command line, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_compare.errors import UsageError
from bench_compare.model import Invocation
from bench_compare.policy import (
    Policy,
    parse_allow,
    parse_fail_on,
    parse_limit,
    parse_metric,
    parse_ratio,
    parse_thresholds,
    read_policy,
)
from bench_compare.report.rows import SORTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.input.sides import Grouping

OUTPUTS = ("markdown", "csv", "json", "junit", "html", "figures")
"""Formats with a flag of their own; the table goes to stdout."""
COLORS = ("auto", "always", "never")
PLOTLYJS = ("inline", "full", "cdn")
FOR_TWO = (
    *("--base", "--label", "--threshold", "--metric", "--policy", "--fail-on", "--strict"),
    *("--require-sensitivity", "--max-unclear", "--allow", "--calibration", "--archive"),
)
"""Flags that say how documents are held against each other."""


@dataclass(frozen=True)
class CompareOptions:
    documents: tuple[str, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]
    grouping: Grouping
    policy: Policy
    shows_one: bool
    """A single document is shown by itself: nothing was asked that takes two."""
    aa: bool
    calibration: str | None
    """File to use."""
    archive: str | None
    """Folder to learn it from instead."""
    save_calibration: str | None
    """File to write, from an A/A test."""
    outputs: Mapping[str, str]
    """Format to file name; ``-`` is stdout."""
    all: bool
    sort: str
    filter: str | None
    exit_codes: tuple[str, ...]
    """Codes with which a command of hyperfine ended well."""
    color: str
    plotlyjs: str
    quiet: bool
    invocation: Invocation


def parse_options(arguments: Mapping[str, Any]) -> CompareOptions:
    """Parse docopt's words. Raises `UsageError` with the flag and the choices."""
    outputs = outputs_of(arguments, OUTPUTS)
    a, b, documents = arguments["--a"], arguments["--b"], arguments["DOC"]
    if bool(a) != bool(b):
        raise UsageError("--a and --b come together: documents of the base, and of the other side")
    if a and documents:
        raise UsageError(
            f"{documents[0]}: documents are either listed, or given by --a and --b; put a glob in "
            f"quotes, as the shell expands it else: --a '{Path(a[0]).parent}/*.json'"
        )
    if arguments["--save-calibration"] and not arguments["--aa"]:
        raise UsageError("--save-calibration comes with --aa: documents of one build")
    if arguments["--calibration"] and arguments["--archive"]:
        raise UsageError("--calibration and --archive: one of them")
    if not a and not documents:
        raise UsageError("no documents given; two are compared, see --help")
    policy = _policy(arguments)
    from bench_compare.input.sides import Grouping  # loads numpy, which a usage error does not need

    return CompareOptions(
        documents=tuple(arguments["DOC"]),
        a=tuple(arguments["--a"]),
        b=tuple(arguments["--b"]),
        grouping=Grouping(
            arguments["--group-by"], tuple(arguments["--label"]), arguments["--base"]
        ),
        policy=policy,
        shows_one=not any(arguments[flag] for flag in FOR_TWO)
        and arguments["--group-by"] in (None, "label", "file")
        and len(arguments["DOC"]) == 1,
        aa=arguments["--aa"],
        calibration=arguments["--calibration"],
        archive=arguments["--archive"],
        save_calibration=arguments["--save-calibration"],
        outputs=outputs,
        all=arguments["--all"],
        sort=_choice(arguments, "--sort", tuple(SORTS)),
        filter=arguments["--filter"],
        exit_codes=_exit_codes(arguments["--exit-codes"]),
        color=_choice(arguments, "--color", COLORS),
        plotlyjs=_choice(arguments, "--plotlyjs", PLOTLYJS),
        quiet=arguments["--quiet"],
        invocation=Invocation(
            record=None if outputs.get("json") in (None, "-") else outputs["json"],
            allow_no_answer=arguments["--allow-no-answer"],
        ),
    )


def outputs_of(arguments: Mapping[str, Any], formats: Sequence[str]) -> dict[str, str]:
    """Format to file name, of those that are asked for."""
    found: dict[str, str] = {}
    for name in formats:
        target = arguments.get(f"--{name}")
        if target is None:
            continue
        if not target:
            raise UsageError(f"--{name}: the name of a file is empty; '-' is stdout")
        if name == "figures" and target == "-":
            raise UsageError("--figures: a folder is expected, not '-'")
        if target == "-" and target in found.values():
            raise UsageError("only one format can go to stdout ('-')")
        found[name] = target
    return found


def _exit_codes(text: str | None) -> tuple[str, ...]:
    codes = () if text is None else tuple(word.strip() for word in text.split(","))
    if not all(code.isdecimal() for code in codes):
        raise UsageError(f"--exit-codes: {text!r}; expected numbers with commas, such as 0,1")
    return codes


def _choice(arguments: Mapping[str, Any], flag: str, choices: tuple[str, ...]) -> str:
    """Return the flag's word; the first choice if it was not given."""
    value = arguments[flag]
    if value is None:
        return choices[0]
    if value not in choices:
        raise UsageError(f"{flag}: {value!r}; choose from {', '.join(choices)}")
    return str(value)


def _policy(arguments: Mapping[str, Any]) -> Policy:
    """Return the file's policy with the flags laid over it."""
    policy = Policy() if arguments["--policy"] is None else read_policy(Path(arguments["--policy"]))
    general, metrics = parse_thresholds(arguments["--threshold"], "--threshold")
    if general is not None:
        policy = replace(policy, threshold_ratio=general)
    policy = replace(policy, metric_thresholds={**policy.metric_thresholds, **metrics})
    words = [word for text in arguments["--fail-on"] for word in text.split(",") if word]
    if words:
        fail_on = parse_fail_on(words, "--fail-on", policy.fail_on)
        policy = replace(policy, fail_on=fail_on)
    if arguments["--metric"]:
        chosen = [word for text in arguments["--metric"] for word in text.split(",") if word]
        names = tuple(parse_metric(word, "--metric") for word in chosen)
        policy = replace(policy, metrics=names)
    if arguments["--require-sensitivity"] is not None:
        ratio = parse_ratio(arguments["--require-sensitivity"], "--require-sensitivity")
        policy = replace(policy, required_sensitivity_ratio=ratio)
    if arguments["--max-unclear"] is not None:
        policy = replace(
            policy, max_unclear=parse_limit(arguments["--max-unclear"], "--max-unclear")
        )
    allowed = tuple(parse_allow(text, "--allow") for text in arguments["--allow"])
    return replace(policy, allow=(*policy.allow, *allowed), strict=arguments["--strict"])
