"""Words of the command line and of policy files → values of a policy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bench_compare.errors import UsageError
from bench_compare.metrics import METRICS
from bench_compare.model import Verdict
from bench_compare.policy.values import SUITE, Allowance, Limit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def parse_ratio(text: str, where: str) -> float:
    """``1%`` or ``0.01``; a bare 1 or more is refused, since it is most likely a percentage."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is no share; write 1% or 0.01") from None
    if not 0 < value < 1:
        raise UsageError(f"{where}: {text!r} is not between 0 and 100 %; write 1% or 0.01")
    return value


def parse_limit(text: str, where: str) -> Limit:
    """``3`` cases, or ``10%`` of them."""
    word = text.strip()
    if word.isdecimal():
        return Limit(int(word))
    number = word.removesuffix("%").strip()
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not word.endswith("%") or not 0 <= share <= 1:
        raise UsageError(f"{where}: {text!r} is no number of cases; write 3 or 10%")
    return Limit(share=share)


def parse_metric(text: str, where: str) -> str:
    if text not in METRICS:
        raise UsageError(f"{where}: no metric {text!r}; choose from {', '.join(METRICS)}")
    return text


def parse_verdict(text: str, where: str) -> Verdict:
    """A verdict's word; ``newly-wrong`` is ``newly wrong``."""
    word = text.strip().replace("-", " ").replace("_", " ")
    known = {verdict.value: verdict for verdict in Verdict}
    if word not in known:
        choices = ", ".join(name.replace(" ", "-") for name in known)
        raise UsageError(f"{where}: no verdict {text!r}; choose from {choices}")
    return known[word]


def parse_fail_on(words: Iterable[str], where: str) -> frozenset[str]:
    """Verdict words, metric names, ``suite``; ``none`` alone leaves only `ALWAYS_BAD`."""
    found: set[str] = set()
    for word in words:
        if word in (SUITE, *METRICS):
            found.add(word)
        elif word != "none":
            found.add(parse_verdict(word, where).value)
    return frozenset(found)


def parse_allow(text: str, where: str) -> Allowance:
    """``NAME`` or ``NAME=VERDICT``; NAME may be a glob. A ``=`` inside a name is left alone."""
    name, sign, word = text.rpartition("=")
    try:
        return Allowance(name, parse_verdict(word, where)) if sign else Allowance(text)
    except UsageError:
        return Allowance(text)


def parse_thresholds(words: Iterable[str], where: str) -> tuple[float | None, dict[str, float]]:
    """``1%`` and ``METRIC=5%`` → the general threshold and those of metrics."""
    general: float | None = None
    metrics: dict[str, float] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if sign:
            metrics[parse_metric(name.strip(), where)] = parse_ratio(value, where)
        else:
            general = parse_ratio(word, where)
    return general, metrics


def read_toml(path: Path) -> dict[str, Any]:
    """The file's table. Raises `UsageError` with the file and what is wrong."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--policy: {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--policy: {path}: not TOML: {error}") from None
