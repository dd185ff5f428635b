"""The flags of a run: which field of `Options` each sets and how its text is read.

The configuration file uses the same rows (``max-time = 2`` or ``max_time = 2``), so both accept and
refuse the same words.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    read_shard,
    read_switch,
    read_text,
    whole_reader,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMERS = ("auto", "events", "cupti", "host")
CACHES = ("hot", "cold", "rotate", "weights-cold", "pass")
DUTIES = ("cool", "sustained")
FRESH = ("fork", "exec")
UNTIL = ("decided",)
MATHS = ("fp32", "tf32", "fast")
TOLERANCES = ("default", "hipdnn")
SHAPES = ("small", "common", "large", "skewed", "all")
SDPA_SCALES = ("one", "rsqrt")
DIRECTIONS = ("fwd", "bwd", "both")

FLAGS: dict[str, Flag] = {
    "--op": Flag("op", read_text, many=True),
    "--miopen-driver": Flag("miopen_driver", read_text, many=True),
    "--shapes": Flag("shapes", choice_reader(SHAPES)),
    "--direction": Flag("direction", choice_reader(DIRECTIONS)),
    "--scale-batch": Flag("scale_batch", whole_reader(1)),
    "--sdpa-scale": Flag("sdpa_scale", choice_reader(SDPA_SCALES)),
    "--save-graphs": Flag("save_graphs", read_text),
    "--save-suite": Flag("save_suite", read_text),
    "--chain": Flag("chain", read_switch),
    "--seams": Flag("seams", read_switch),
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
    "--threads": Flag("threads", whole_reader(1)),
    "--math": Flag("math", choice_reader(MATHS)),
    "--reference": Flag("reference", read_text),
    "--tolerance": Flag("tolerance", choice_reader(TOLERANCES)),
    "--rtol": Flag("rtol", read_number),
    "--atol": Flag("atol", read_number),
    "--golden": Flag("golden", read_text),
    "--write-golden": Flag("write_golden", read_text),
    "--reference-cache": Flag("reference_cache", read_text),
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
    "--until": Flag("until", choice_reader(UNTIL)),
    "--against": Flag("against", read_text),
    "--threshold": Flag("threshold_ratio", read_ratio),
    "--max-rounds": Flag("max_rounds", whole_reader(1)),
    "--timeout": Flag("timeout_s", read_seconds),
    "--build-timeout": Flag("build_timeout_s", read_seconds),
    "--timer": Flag("timer", choice_reader(TIMERS)),
    "--cache": Flag("cache", choice_reader(CACHES)),
    "--duty": Flag("duty", choice_reader(DUTIES)),
    "--fresh": Flag("fresh", choice_reader(FRESH)),
    "--parallel": Flag("parallel", choice_reader(("prepare", "measure"))),
    "--require-idle": Flag("require_idle", read_switch),
    "--prepare": Flag("prepare", whole_reader(1)),
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
    "--tuned": Flag("tuned", read_text),
    "--tuned-mismatch": Flag("tuned_mismatch", choice_reader(("default", "error"))),
    "--ray": Flag("ray", read_text),
    "--shard": Flag("shard", read_shard),
    "--quiet": Flag("quiet", read_switch),
    "--verbose": Flag("verbose", read_switch),
    "--dry-run": Flag("dry_run", read_switch),
}


def flag_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
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


def config_values(path: str) -> dict[str, Any]:
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
    except (tomllib.TOMLDecodeError, RecursionError) as error:
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
