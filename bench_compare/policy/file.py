"""A policy as a TOML file, so that a project keeps its thresholds and exceptions under review.

threshold = "1%"
fail-on = ["slower", "suite"]
allow = ["conv_old*", "matmul_x=slower"]
noise-floor = "0.2%"

[thresholds]
init_ns = "20%"

[[graph]]
name = "conv_*"
threshold = "3%"
metric = "device_ns"
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_compare.errors import UsageError
from bench_compare.policy.parse import (
    parse_allow,
    parse_fail_on,
    parse_metric,
    parse_ratio,
    parse_thresholds,
    read_toml,
)
from bench_compare.policy.values import GraphRule, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEYS = ("threshold", "thresholds", "fail-on", "allow", "noise-floor", "graph")
GRAPH_KEYS = ("name", "threshold", "metric")


def read_policy(path: Path) -> Policy:
    """The policy of a file; what it does not say keeps its default. Raises `UsageError`."""
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
    return tuple(_rule(row, f"{where} {number}") for number, row in enumerate(rows, start=1))


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: a table is expected")
    return value


def _rule(row: Mapping[str, Any], where: str) -> GraphRule:
    _known(_table(row, where), GRAPH_KEYS, where)
    missing = [key for key in ("name", "threshold") if key not in row]
    if missing:
        raise UsageError(f"{where}: {missing[0]} is missing")
    metric = parse_metric(row["metric"], where) if "metric" in row else None
    return GraphRule(str(row["name"]), _ratio(row["threshold"], where), metric)


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
