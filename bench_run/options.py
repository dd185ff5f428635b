"""The settings of a run as one value, and how flags and configuration keys become it.

A flag is a row of `FLAGS`: its field in `Options` and how its text is read. The configuration file
uses the same rows (``max-time = 2`` or ``max_time = 2``), so both accept and refuse the same words.
Precedence: flags, then the file, then the defaults written here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from bench_run.errors import UsageError
from bench_run.tensors.init_plan import parse_init

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


Reader = Callable[[str, str], Any]


@dataclass(frozen=True)
class Flag:
    field: str
    read: Reader
    many: bool = False


def _text(_flag: str, value: str) -> str:
    return value


def _whole(minimum: int) -> Reader:
    def read(flag: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise UsageError(f"{flag}: expected a whole number, got {value!r}") from None
        if number < minimum:
            raise UsageError(f"{flag}: expected at least {minimum}, got {number}")
        return number

    return read


def _devices(flag: str, value: str) -> tuple[int, ...] | None:
    """``2``, ``0,2`` or ``all``."""
    if value == "all":
        return None
    found = value.split(",")
    if not all(part.isdecimal() for part in found) or len(set(found)) < len(found):
        raise UsageError(
            f"{flag}: expected a device number, several such as 0,2, or all: {value!r}"
        )
    return tuple(map(int, found))


def _number(flag: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"{flag}: expected a number, got {value!r}") from None
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"{flag}: expected a finite number of at least 0, got {value}")
    return number


def _seconds(flag: str, value: str) -> float:
    number = _number(flag, value.removesuffix("s").strip())
    if number == 0:
        raise UsageError(f"{flag}: expected more than 0 seconds")
    return number


def _limit(flag: str, value: str) -> float | None:
    return None if value == "none" else _seconds(flag, value)


def _ratio(flag: str, value: str) -> float:
    percent = value.endswith("%")
    number = _number(flag, value.removesuffix("%"))
    number = number / 100 if percent else number
    if not 0 < number < 1:
        raise UsageError(f"{flag}: expected a share such as 1% or 0.01, got {value}")
    return number


def _choice(choices: Sequence[str]) -> Reader:
    def read(flag: str, value: str) -> str:
        if value not in choices:
            raise UsageError(f"{flag}: no choice {value!r}; choose from {', '.join(choices)}")
        return value

    return read


def _pair(flag: str, value: str) -> tuple[str, str]:
    key, equals, rest = value.partition("=")
    if not equals or not key:
        raise UsageError(f"{flag}: expected KEY=VALUE, got {value!r}")
    return key, rest


def _switch(flag: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise UsageError(f"{flag}: expected true or false, got {value!r}")
    return value == "true"


FLAGS: dict[str, Flag] = {
    "--op": Flag("op", _text, many=True),
    "--miopen-driver": Flag("miopen_driver", _text, many=True),
    "--shapes": Flag("shapes", _choice(SHAPES)),
    "--direction": Flag("direction", _choice(DIRECTIONS)),
    "--scale-batch": Flag("scale_batch", _whole(1)),
    "--sdpa-scale": Flag("sdpa_scale", _choice(SDPA_SCALES)),
    "--save-graphs": Flag("save_graphs", _text),
    "--save-suite": Flag("save_suite", _text),
    "--engine": Flag("engine", _text, many=True),
    "--a": Flag("a", _text),
    "--b": Flag("b", _text),
    "--plugin-path": Flag("plugin_path", _text, many=True),
    "--plugin-mode": Flag("plugin_mode", _choice(("absolute", "additive"))),
    "--hipdnn-prefix": Flag("hipdnn_prefix", _text),
    "--knob": Flag("knob", _pair, many=True),
    "--oracle": Flag("oracle", _switch),
    "--cache-dir": Flag("cache_dir", _text),
    "--warm-caches": Flag("warm_caches", _switch),
    "--device": Flag("device", _devices),
    "--math": Flag("math", _choice(MATHS)),
    "--reference": Flag("reference", _text),
    "--tolerance": Flag("tolerance", _choice(TOLERANCES)),
    "--rtol": Flag("rtol", _number),
    "--atol": Flag("atol", _number),
    "--golden": Flag("golden", _text),
    "--write-golden": Flag("write_golden", _text),
    "--init": Flag("init", _text, many=True),
    "--mismatches": Flag("mismatches", _whole(0)),
    "--save-outputs": Flag("save_outputs", _text),
    "--check-budget": Flag("check_budget_s", _number),
    "--warmup": Flag("warmup", _whole(0)),
    "--iters": Flag("iterations", _whole(1)),
    "--rounds": Flag("rounds", _whole(1)),
    "--min-time": Flag("min_time_s", _seconds),
    "--max-time": Flag("max_time_s", _limit),
    "--precision": Flag("precision_ratio", _ratio),
    "--max-rounds": Flag("max_rounds", _whole(1)),
    "--timeout": Flag("timeout_s", _seconds),
    "--build-timeout": Flag("build_timeout_s", _seconds),
    "--timer": Flag("timer", _choice(TIMERS)),
    "--cache": Flag("cache", _choice(CACHES)),
    "--duty": Flag("duty", _choice(DUTIES)),
    "--fresh": Flag("fresh", _choice(FRESH)),
    "--replay": Flag("replay", _switch),
    "--energy": Flag("energy", _switch),
    "--executions": Flag("executions", _whole(1)),
    "--seed": Flag("seed", _whole(0)),
    "--output": Flag("output", _text),
    "--csv": Flag("csv", _text),
    "--csv-samples": Flag("csv_samples", _text),
    "--markdown": Flag("markdown", _text),
    "--trace": Flag("trace", _text),
    "--counters": Flag("counters", _text),
    "--label": Flag("label", _text),
    "--tag": Flag("tag", _pair, many=True),
    "--resume": Flag("resume", _switch),
    "--rerun-from": Flag("rerun_from", _text),
    "--quiet": Flag("quiet", _switch),
    "--verbose": Flag("verbose", _switch),
    "--dry-run": Flag("dry_run", _switch),
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
