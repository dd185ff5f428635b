"""Rules for what counts and what is allowed, from flags and files."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from bench_schema.packing import read_regular

from bench_compare.errors import UsageError
from bench_compare.metrics import METRICS, Rate, Sampled, is_metric
from bench_compare.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


ALWAYS_BAD = frozenset(
    {Verdict.BROKEN, Verdict.REMOVED, Verdict.NEWLY_WRONG, Verdict.WRONG, Verdict.LOST}
)
"""Bad news whatever ``--fail-on`` says; only a name can be allowed to."""

SUITE = "suite"
"""The word of ``--fail-on`` and the name for ``--allow`` that mean the common movement."""

DEFAULT_FAIL_ON = (Verdict.SLOWER.value, Verdict.NEWLY_UNSUPPORTED.value, SUITE)


LEAST_DIGITS = 12
"""Fewest digits of a fingerprint, as in tables, that name a graph."""


@dataclass(frozen=True)
class Allowance:
    """A graph that may be bad news; ``verdict`` None allows any."""

    pattern: str
    verdict: Verdict | None = None

    def names(self, names: Iterable[str], fingerprints: Iterable[str]) -> bool:
        """Return True if the pattern equals or matches a name of the graph, or begins its
        fingerprint (with at least `LEAST_DIGITS` digits). Fingerprints are not matched as globs, so
        that ``c*`` means graphs whose names begin with c."""
        return any(fits(name, self.pattern) for name in names) or (
            len(self.pattern) >= LEAST_DIGITS
            and any(one.startswith(self.pattern) for one in fingerprints)
        )

    def __str__(self) -> str:
        return self.pattern if self.verdict is None else f"{self.pattern}={self.verdict}"


@dataclass(frozen=True)
class GraphRule:
    """A threshold of its own for the graphs that ``pattern`` fits; a later rule wins."""

    pattern: str
    threshold_ratio: float
    metric: str | None = None


@dataclass(frozen=True)
class UnclearLimit:
    """A number of cases, or a share of them."""

    count: int = 0
    share: float | None = None

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{100 * self.share:.3g}%"


@dataclass(frozen=True)
class Policy:
    threshold_ratio: float | None = None
    """Threshold of times and rates; other metrics keep the threshold of their row."""
    metric_thresholds: Mapping[str, float] = field(default_factory=dict)
    rules: tuple[GraphRule, ...] = ()
    metrics: tuple[str, ...] | None = None
    """Metrics that are compared; None: all."""
    fail_on: frozenset[str] = frozenset(DEFAULT_FAIL_ON)
    """Verdict words or names of metrics (any worsening of that metric); the common movement gates
    always."""
    allow: tuple[Allowance, ...] = ()
    strict: bool = False
    required_sensitivity_ratio: float | None = None
    """Nine of ten cases must be able to show a slow-down of this share."""
    max_unclear: UnclearLimit | None = None
    """Limit of unclear cases; more of them prevent an answer."""
    floor_sd: float | None = None
    """Standard deviation of what a document adds and does not show, in place of `judge.FLOORS`."""

    def threshold(self, metric: str) -> float:
        """Return the threshold of a metric for graphs without a rule."""
        if metric in self.metric_thresholds:
            return self.metric_thresholds[metric]
        row = METRICS[metric]
        if self.threshold_ratio is not None and isinstance(row.reading, Sampled | Rate):
            return self.threshold_ratio
        return row.threshold_ratio

    def thresholds(self, metric: str, names: Iterable[str]) -> list[float]:
        """Return the threshold of a metric for each of the graphs."""
        general = self.threshold(metric)
        rules = [rule for rule in reversed(self.rules) if rule.metric in (None, metric)]
        if not rules:
            return [general for _ in names]
        return [
            next((rule.threshold_ratio for rule in rules if fits(name, rule.pattern)), general)
            for name in names
        ]

    def allows(self, names: Sequence[str], fingerprints: Sequence[str], verdict: Verdict) -> bool:
        """Return True if a graph with any of these names may have this bad news."""
        return any(
            rule.verdict in (None, verdict) and rule.names(names, fingerprints)
            for rule in self.allow
        )

    def allows_word(self, word: str, verdict: Verdict) -> bool:
        """Return True if a word of ours (`SUITE`, a limit of devices), which no glob means, may
        have this bad news."""
        return any(rule.verdict in (None, verdict) and rule.pattern == word for rule in self.allow)


def fits(name: str, pattern: str) -> bool:
    """Return True if equal, or if the glob matches; equality first, as names may hold brackets."""
    return name == pattern or fnmatchcase(name, pattern)


def parse_ratio(text: str, where: str) -> float:
    """Parse ``1%`` or ``0.01``; refuse a bare number of 1 and more, which may mean either."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        raise UsageError(f"{where}: expected a share such as 5% or 0.05, got {text!r}") from None
    if 1 <= value < 100 and number == text.strip():
        raise UsageError(f"{where}: {number} of what? Write {number}% or {value / 100:g}")
    if not 0 < value < 1:
        raise UsageError(f"{where}: {text!r} is not between 0 and 100 %")
    return value


def parse_limit(text: str, where: str) -> UnclearLimit:
    """``3`` cases, or ``10%`` of them."""
    word = text.strip()
    if word.isdecimal():
        return UnclearLimit(int(word))
    number = word.removesuffix("%").strip()
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not word.endswith("%") or not 0 <= share <= 1:
        expected = "expected a number of cases or a percentage, such as 3 or 10%"
        raise UsageError(f"{where}: {expected}; got {text!r}")
    return UnclearLimit(share=share)


def parse_metric(text: str, where: str) -> str:
    if not is_metric(text):
        known = ", ".join((*METRICS, "extra:NAME"))
        raise UsageError(f"{where}: no metric {text!r}; choose from {known}")
    return text


def parse_verdict(text: str, where: str) -> Verdict:
    """Return the verdict of a word; ``newly-wrong`` is ``newly wrong``."""
    word = text.strip().replace("-", " ").replace("_", " ")
    known = {verdict.value: verdict for verdict in Verdict}
    if word not in known:
        choices = ", ".join(name.replace(" ", "-") for name in known)
        raise UsageError(f"{where}: no verdict {text!r}; choose from {choices}")
    return known[word]


ONLY = "only:"


def parse_fail_on(
    words: Iterable[str], where: str, known: Iterable[str] = DEFAULT_FAIL_ON
) -> frozenset[str]:
    """Parse verdict words, metric names and ``suite``, in addition to those `known`; with ``only:``
    before one of them in their place, and ``none`` alone leaves only `ALWAYS_BAD`."""
    words = list(words)
    replaces = any(word == "none" or word.startswith(ONLY) for word in words)
    found = set[str]() if replaces else {*known}
    for word in (word.removeprefix(ONLY) for word in words):
        if word == SUITE or is_metric(word):
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
    """Return the file's table. Raises `UsageError` with the file and what is wrong."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(read_regular(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"--policy: {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--policy: {path}: not TOML: {error}") from None


# A policy as a TOML file, so that a project keeps its thresholds and exceptions under review.
#
# threshold = "1%"
# fail-on = ["init_ns"]            # beside the default; ["only:slower"] in its place
# allow = ["conv_old*", "matmul_x=slower"]
# noise-floor = "0.2%"
#
# [thresholds]
# init_ns = "20%"
#
# [[graph]]
# name = "conv_*"
# threshold = "3%"
# metric = "device_ns"


KEYS = ("threshold", "thresholds", "fail-on", "allow", "noise-floor", "graph")
GRAPH_KEYS = ("name", "threshold", "metric")


def read_policy(path: Path) -> Policy:
    """Return the policy of a file; what it does not say keeps its default. Raises `UsageError`."""
    return parse_policy(read_toml(path), f"--policy: {path}")


def parse_policy(table: Mapping[str, Any], where: str) -> Policy:
    _known(table, KEYS, where)
    policy = Policy()
    if "threshold" in table:
        policy = replace(policy, threshold_ratio=_ratio(table["threshold"], f"{where}: threshold"))
    if "thresholds" in table:
        values = _table(table["thresholds"], f"{where}: thresholds")
        words = [f"{name}={value}" for name, value in values.items()]
        _, metrics = parse_thresholds(words, f"{where}: thresholds")
        policy = replace(policy, metric_thresholds=metrics)
    if "fail-on" in table:
        words = _words(table["fail-on"], f"{where}: fail-on")
        fail_on = parse_fail_on(words, f"{where}: fail-on")
        policy = replace(policy, fail_on=fail_on)
    if "allow" in table:
        words = _words(table["allow"], f"{where}: allow")
        policy = replace(policy, allow=tuple(parse_allow(w, f"{where}: allow") for w in words))
    if "noise-floor" in table:
        floor = _ratio(table["noise-floor"], f"{where}: noise-floor")
        policy = replace(policy, floor_sd=floor)
    return replace(policy, rules=_rules(table.get("graph", []), f"{where}: graph"))


def _rules(rows: object, where: str) -> tuple[GraphRule, ...]:
    if not isinstance(rows, list):
        raise UsageError(f"{where}: a list of tables is expected, each [[graph]]")
    rules = []
    for number, row in enumerate(rows, start=1):
        place = f"{where} {number}"
        _known(_table(row, place), GRAPH_KEYS, place)
        missing = [key for key in ("name", "threshold") if key not in row]
        if missing:
            raise UsageError(f"{place}: {missing[0]} is missing")
        metric = parse_metric(row["metric"], place) if "metric" in row else None
        rules.append(GraphRule(str(row["name"]), _ratio(row["threshold"], place), metric))
    return tuple(rules)


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: a table is expected")
    return value


def _ratio(value: object, where: str) -> float:
    return parse_ratio(str(value), where)


def _words(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UsageError(f"{where}: a list of texts is expected")
    return value


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise UsageError(f"{where}: no key {key!r}; choose from {', '.join(keys)}")
