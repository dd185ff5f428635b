"""From docopt's dictionary to `Options` that make sense together.

Precedence: flags, then the configuration file, then the defaults of `Options`.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.options.flags import config_values, flag_values
from bench_run.options.settings import STDOUT, Options
from bench_run.tensors.seeded.init_plan import parse_init

if TYPE_CHECKING:
    from collections.abc import Mapping


def _pair_side(arguments: Mapping[str, Any], side: str) -> str | None:
    """``--AId 1 --APath P`` as the engine spec ``hipdnn:1@P``."""
    engine_id, path = arguments.get(f"--{side}Id"), arguments.get(f"--{side}Path")
    if engine_id is None and path is None:
        return None
    if engine_id is None:
        raise UsageError(f"--{side}Path goes with --{side}Id")
    return f"hipdnn:{engine_id}" + (f"@{path}" if path is not None else "")


def read_options(arguments: Mapping[str, Any]) -> Options:
    """Options from docopt's dictionary; raises `UsageError` that names the flag."""
    values: dict[str, Any] = {}
    if arguments.get("--config") is not None:
        values.update(config_values(arguments["--config"]))
    values.update(flag_values(arguments))
    if arguments.get("GRAPH"):
        values["graphs"] = tuple(arguments["GRAPH"])
    for side in ("A", "B"):
        spec = _pair_side(arguments, side)
        if spec is not None:
            if values.get(side.lower()) is not None:
                raise UsageError(f"--{side}Id and --{side.lower()} name the same side; give one")
            values[side.lower()] = spec
    known = {field.name for field in fields(Options)}
    assert set(values) <= known
    return checked(replace(Options(), **values))


def _check_caches(options: Options) -> None:
    """Raises `UsageError` where caches or what needs its own are named twice."""
    if options.warm_caches and options.cache_dir is not None:
        raise UsageError("--warm-caches and --cache-dir name different caches; give one")
    if options.oracle and options.vendor_caches != "fresh":
        raise UsageError(
            "--oracle needs caches of its own for each side: leave out --cache-dir "
            "and --warm-caches"
        )
    if options.oracle and options.a is not None:
        raise UsageError("--oracle and --a/--b: give one or the other")


def _check_added_rounds(options: Options) -> None:
    """Raises `UsageError` where rules that add rounds contradict each other, or nothing uses what
    was set for them."""
    if options.until is not None and options.precision_ratio is not None:
        raise UsageError("--until and --precision: give one or the other")
    if options.until is not None and options.oracle:
        raise UsageError("--until and --oracle: give one or the other")
    for name, field in (("--against", "against"), ("--threshold", "threshold_ratio")):
        if options.until is None and getattr(options, field) != getattr(Options, field):
            raise UsageError(f"{name} goes with --until decided")
    if not options.adds_rounds and options.max_rounds != Options.max_rounds:
        raise UsageError("--max-rounds goes with --precision or --until, which add rounds")
    if options.adds_rounds and options.max_rounds < options.rounds:
        raise UsageError(
            f"--max-rounds {options.max_rounds} is less than --rounds {options.rounds}"
        )


def checked(options: Options) -> Options:
    """The options, if they make sense together."""
    if (options.a is None) != (options.b is None):
        raise UsageError("--a and --b go together: two engines to compare")
    _check_caches(options)
    if options.a is not None and options.engine:
        raise UsageError("--a/--b and --engine: give one or the other")
    if options.a is not None and (options.devices is None or len(options.devices) > 1):
        raise UsageError(
            "--a/--b compare two engines on one --device; "
            "for two devices name them: --a cudnn+device=0 --b cudnn+device=1"
        )
    longest = math.inf if options.max_time_s is None else options.max_time_s
    if options.min_time_s is not None and options.min_time_s > longest:
        raise UsageError(f"--min-time {options.min_time_s:g} is more than --max-time {longest:g}")
    _check_added_rounds(options)
    if options.cache == "pass" and not options.seams:
        raise UsageError("--cache pass goes with --seams; a chain leaves its caches so by itself")
    if options.iterations < options.rounds:
        raise UsageError(
            f"--iters {options.iterations} is less than --rounds {options.rounds}: "
            "each round needs at least one iteration"
        )
    if options.tuned is not None and (options.a is not None or len(options.engine) > 1):
        raise UsageError("--tuned names its engines itself: give at most one --engine")
    parse_init(options.init)
    _check_output(options)
    return options


def _check_output(options: Options) -> None:
    if options.resume and options.output in (None, STDOUT):
        raise UsageError("--resume needs -o FILE: the run to continue")
    texts = (options.csv, options.csv_samples, options.markdown)
    if options.output == STDOUT and STDOUT in texts:
        raise UsageError("-o - and a text format: only one can go to stdout ('-')")
    if options.trace == STDOUT:
        raise UsageError("--trace: a trace is a file; it does not go to stdout ('-')")
