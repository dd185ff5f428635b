"""The settings of a run as one value, and how flags and configuration keys become it.

A flag is a row of `FLAGS`: its field in `Options` and how its text is read. The configuration file
uses the same rows (``max-time = 2`` or ``max_time = 2``), so both accept and refuse the same words.
Precedence: flags, then the file, then the defaults written here.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench_run.errors import UsageError
from bench_run.options.readers import (
    Flag,
    choice_reader,
    read_devices,
    read_limit,
    read_number,
    read_pair,
    read_ratio,
    read_seconds,
    read_switch,
    read_text,
    whole_reader,
)
from bench_run.tensors.init_plan import parse_init

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMERS = ("auto", "events", "cupti", "host")
CACHES = ("hot", "cold", "rotate")
DUTIES = ("cool", "sustained")
FRESH = ("fork", "exec")
MATHS = ("fp32", "tf32", "fast")
TOLERANCES = ("default", "hipdnn")
SHAPES = ("small", "common", "large", "skewed", "all")
SDPA_SCALES = ("one", "rsqrt")
DIRECTIONS = ("fwd", "bwd", "both")


@dataclass(frozen=True)
class Options:
    """Everything a run needs to know; see the help text for the meaning of each."""

    graphs: tuple[str, ...] = ()
    op: tuple[str, ...] = ()
    miopen_driver: tuple[str, ...] = ()
    shapes: str = "common"
    direction: str | None = None
    scale_batch: int | None = None
    sdpa_scale: str | None = None
    save_graphs: str | None = None
    save_suite: str | None = None
    engine: tuple[str, ...] = ()
    a: str | None = None
    b: str | None = None
    plugin_path: tuple[str, ...] = ()
    plugin_mode: str = "absolute"
    hipdnn_prefix: str | None = None
    knob: tuple[tuple[str, str], ...] = ()
    oracle: bool = False
    cache_dir: str | None = None
    warm_caches: bool = False
    device: int | tuple[int, ...] | None = 0
    """None: every one that an engine sees."""
    math: str = "fp32"
    reference: str = "auto"
    tolerance: str = "default"
    rtol: float | None = None
    atol: float | None = None
    golden: str | None = None
    write_golden: str | None = None
    init: tuple[str, ...] = ()
    mismatches: int = 5
    save_outputs: str | None = None
    check_budget_s: float = 0.2
    warmup: int = 10
    iterations: int = 100
    rounds: int = 5
    min_time_s: float | None = None
    max_time_s: float | None = 10.0
    precision_ratio: float | None = None
    max_rounds: int = 30
    timeout_s: float = 300.0
    build_timeout_s: float | None = None
    timer: str = "auto"
    cache: str = "hot"
    duty: str = "cool"
    fresh: str = "fork"
    """How a round's workers start: ``fork`` where the engine allows it, else ``exec``."""
    replay: bool = False
    energy: bool = False
    executions: int = 1
    seed: int = 0
    output: str | None = None
    csv: str | None = None
    csv_samples: str | None = None
    markdown: str | None = None
    trace: str | None = None
    counters: str | None = None
    label: str | None = None
    tag: tuple[tuple[str, str], ...] = ()
    resume: bool = False
    rerun_from: str | None = None
    quiet: bool = False
    verbose: bool = False
    dry_run: bool = False

    @property
    def vendor_caches(self) -> Literal["fresh", "shared", "user"]:
        """Which caches on disk the engines' libraries use."""
        if self.warm_caches:
            return "user"
        return "fresh" if self.cache_dir is None else "shared"

    @property
    def devices(self) -> tuple[int, ...] | None:
        """The devices asked for, in order; None for every one."""
        return (self.device,) if isinstance(self.device, int) else self.device


FLAGS: dict[str, Flag] = {
    "--op": Flag("op", read_text, many=True),
    "--miopen-driver": Flag("miopen_driver", read_text, many=True),
    "--shapes": Flag("shapes", choice_reader(SHAPES)),
    "--direction": Flag("direction", choice_reader(DIRECTIONS)),
    "--scale-batch": Flag("scale_batch", whole_reader(1)),
    "--sdpa-scale": Flag("sdpa_scale", choice_reader(SDPA_SCALES)),
    "--save-graphs": Flag("save_graphs", read_text),
    "--save-suite": Flag("save_suite", read_text),
    "--engine": Flag("engine", read_text, many=True),
    "--a": Flag("a", read_text),
    "--b": Flag("b", read_text),
    "--plugin-path": Flag("plugin_path", read_text, many=True),
    "--plugin-mode": Flag("plugin_mode", choice_reader(("absolute", "additive"))),
    "--hipdnn-prefix": Flag("hipdnn_prefix", read_text),
    "--knob": Flag("knob", read_pair, many=True),
    "--oracle": Flag("oracle", read_switch),
    "--cache-dir": Flag("cache_dir", read_text),
    "--warm-caches": Flag("warm_caches", read_switch),
    "--device": Flag("device", read_devices),
    "--math": Flag("math", choice_reader(MATHS)),
    "--reference": Flag("reference", read_text),
    "--tolerance": Flag("tolerance", choice_reader(TOLERANCES)),
    "--rtol": Flag("rtol", read_number),
    "--atol": Flag("atol", read_number),
    "--golden": Flag("golden", read_text),
    "--write-golden": Flag("write_golden", read_text),
    "--init": Flag("init", read_text, many=True),
    "--mismatches": Flag("mismatches", whole_reader(0)),
    "--save-outputs": Flag("save_outputs", read_text),
    "--check-budget": Flag("check_budget_s", read_number),
    "--warmup": Flag("warmup", whole_reader(0)),
    "--iters": Flag("iterations", whole_reader(1)),
    "--rounds": Flag("rounds", whole_reader(1)),
    "--min-time": Flag("min_time_s", read_seconds),
    "--max-time": Flag("max_time_s", read_limit),
    "--precision": Flag("precision_ratio", read_ratio),
    "--max-rounds": Flag("max_rounds", whole_reader(1)),
    "--timeout": Flag("timeout_s", read_seconds),
    "--build-timeout": Flag("build_timeout_s", read_seconds),
    "--timer": Flag("timer", choice_reader(TIMERS)),
    "--cache": Flag("cache", choice_reader(CACHES)),
    "--duty": Flag("duty", choice_reader(DUTIES)),
    "--fresh": Flag("fresh", choice_reader(FRESH)),
    "--replay": Flag("replay", read_switch),
    "--energy": Flag("energy", read_switch),
    "--executions": Flag("executions", whole_reader(1)),
    "--seed": Flag("seed", whole_reader(0)),
    "--output": Flag("output", read_text),
    "--csv": Flag("csv", read_text),
    "--csv-samples": Flag("csv_samples", read_text),
    "--markdown": Flag("markdown", read_text),
    "--trace": Flag("trace", read_text),
    "--counters": Flag("counters", read_text),
    "--label": Flag("label", read_text),
    "--tag": Flag("tag", read_pair, many=True),
    "--resume": Flag("resume", read_switch),
    "--rerun-from": Flag("rerun_from", read_text),
    "--quiet": Flag("quiet", read_switch),
    "--verbose": Flag("verbose", read_switch),
    "--dry-run": Flag("dry_run", read_switch),
}


def _flag_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the command line sets; docopt gives None, False or [] for what is absent."""
    values: dict[str, Any] = {}
    for name, flag in FLAGS.items():
        given = arguments.get(name)
        if given is None or given is False or given == []:
            continue
        if given is True:
            values[flag.field] = True
        elif flag.many:
            values[flag.field] = tuple(flag.read(name, text) for text in given)
        else:
            values[flag.field] = flag.read(name, given)
    return values


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _config_values(path: str) -> dict[str, Any]:
    """The fields that a TOML file sets. Unknown keys and tables are errors that name the file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config: {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--config: {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--config: {path}: not TOML: {error}") from None
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = "--" + key.replace("_", "-")
        if key == "graphs":
            values["graphs"] = tuple(map(str, value if isinstance(value, list) else [value]))
            continue
        if name not in FLAGS:
            known = ", ".join(sorted(["graphs", *(flag[2:] for flag in FLAGS)]))
            raise UsageError(f"--config: {path}: unknown key {key!r}; known keys are {known}")
        flag, where = FLAGS[name], f"{path}: {key}"
        if flag.many:
            items = _items(where, value)
            values[flag.field] = tuple(flag.read(where, item) for item in items)
        elif isinstance(value, (list, dict)):
            raise UsageError(f"--config: {where}: expected one value")
        else:
            values[flag.field] = flag.read(where, _config_text(value))
    return values


def _items(where: str, value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}={_config_text(item)}" for key, item in value.items()]
    if isinstance(value, list):
        return [_config_text(item) for item in value]
    if isinstance(value, str):
        return [value]
    raise UsageError(f"--config: {where}: expected a list or a table")


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
        values.update(_config_values(arguments["--config"]))
    values.update(_flag_values(arguments))
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
        raise UsageError("--oracle needs caches of its own for each side: leave out --cache-dir "
                         "and --warm-caches")  # fmt: skip
    if options.oracle and options.a is not None:
        raise UsageError("--oracle and --a/--b: give one or the other")


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
    if options.precision_ratio is None and options.max_rounds != Options.max_rounds:
        raise UsageError("--max-rounds goes with --precision, which adds rounds")
    if options.precision_ratio is not None and options.max_rounds < options.rounds:
        raise UsageError(
            f"--max-rounds {options.max_rounds} is less than --rounds {options.rounds}"
        )
    if options.iterations < options.rounds:
        raise UsageError(
            f"--iters {options.iterations} is less than --rounds {options.rounds}: "
            "each round needs at least one iteration"
        )
    parse_init(options.init)
    if options.resume and options.output is None:
        raise UsageError("--resume needs -o FILE: the run to continue")
    return options
