"""Reader of a command line and a configuration file, which makes consistent `Options`.

Both give their values by the rows of the settings (``max-time = 2`` or ``max_time = 2`` in a file),
so both accept and refuse the same words. Flags win over the file, the file over the defaults.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.packing import read_regular
from bench_schema.settings import LEAST_ROUNDS, Setting, rows_of
from bench_schema.usage import nearest

from bench_run.errors import UsageError
from bench_run.options.context import engine_of
from bench_run.options.groups import GRAPHS
from bench_run.settings import STDOUT, Options, Spellings, TuneOptions
from bench_run.tensors.seeded.init_plan import parse_init

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_SHARDS = 10_000
MOST_THREADS = 100_000
SPANS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
UNITS_S = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, **SPANS_S}


def read_text(_flag: str, value: str) -> str:
    return value


def read_whole(flag: str, value: str, least: int, most: int) -> int:
    try:
        number = int(value)
    except ValueError:
        raise UsageError(f"{flag}: expected a whole number, got {value!r}") from None
    if number < least:
        raise UsageError(f"{flag}: expected at least {least}, got {number}")
    if number > most:
        raise UsageError(f"{flag}: expected at most {most}, got {number}")
    return number


def read_choice(flag: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"{flag}: no choice {value!r}; choose from {', '.join(choices)}")
    return value


def read_devices(flag: str, value: str) -> tuple[int, ...] | None:
    """Parse ``2``, ``0,2`` or ``all``."""
    if value == "all":
        return None
    found = value.split(",")
    if not all(part.isdecimal() for part in found) or len(set(found)) < len(found):
        raise UsageError(
            f"{flag}: expected a device number, several such as 0,2, or all: {value!r}"
        )
    return tuple(map(int, found))


def read_threads(flag: str, value: str) -> int | None:
    """Parse ``4``, or ``all`` as None."""
    if value == "all":
        return None
    if not value.removeprefix("-").isdecimal():
        raise UsageError(f"{flag}: expected a number of threads or all, got {value!r}")
    return read_whole(flag, value, 1, MOST_THREADS)


def read_number(flag: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"{flag}: expected a number, got {value!r}") from None
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"{flag}: expected a finite number of at least 0, got {value}")
    return number


def read_share(flag: str, value: str) -> float:
    """Read ``0.99`` or ``99%``: above 0, at most 1."""
    number = read_number(flag, value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    if not 0 < number <= 1:
        raise UsageError(f"{flag}: expected a number above 0, at most 1 or 100%, got {value}")
    return number


SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])i?B?|B)?\s*", re.IGNORECASE)
MOST_BYTES = float(1 << 60)
SIZE_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_size(text: str) -> int | None:
    """Return the bytes of a size (``256MiB``, ``1G``, ``4096``); None if it is not one."""
    found = SIZE.fullmatch(text)
    if found is None:
        return None
    size = float(found[1]) * (1 << SIZE_UNITS[(found[2] or "").upper()])
    return round(min(size, MOST_BYTES))


def read_size(flag: str, text: str) -> int:
    size = parse_size(text)
    if size is None:
        raise UsageError(f"{flag}: expected a size such as 256MiB, 1GiB or 4096, got {text!r}")
    return size


def read_seconds(flag: str, value: str) -> float:
    text, factor = value.strip(), 1.0
    for unit in UNITS_S:
        if text.endswith(unit):
            text, factor = text.removesuffix(unit), UNITS_S[unit]
            break
    try:
        number = read_number(flag, text.strip())
    except UsageError:
        raise UsageError(
            f"{flag}: expected a time such as 2, 2s, 500ms or 1m, got {value!r}"
        ) from None
    if number == 0:
        raise UsageError(f"{flag}: expected more than 0 seconds")
    return number * factor


def read_limit(flag: str, value: str) -> float | None:
    return None if value == "none" else read_seconds(flag, value)


def read_ratio(flag: str, value: str) -> float:
    percent = value.endswith("%")
    number = read_number(flag, value.removesuffix("%"))
    if not percent and 1 <= number < 100:
        raise UsageError(f"{flag}: {value} of what? Write {value}% or {number / 100:g}")
    number = number / 100 if percent else number
    if not 0 < number < 1:
        raise UsageError(f"{flag}: expected a share such as 1% or 0.01, got {value}")
    return number


def read_pair(flag: str, value: str) -> tuple[str, str]:
    key, equals, rest = value.partition("=")
    if not equals or not key:
        raise UsageError(f"{flag}: expected KEY=VALUE, got {value!r}")
    return key, rest


def read_switch(flag: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise UsageError(f"{flag}: expected true or false, got {value!r}")
    return value == "true"


def read_shard(flag: str, value: str) -> str:
    """Parse ``2/8``; return it without leading zeros."""
    index, slash, count = value.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise UsageError(f"{flag}: expected I/N such as 2/8, got {value!r}")
    if not 1 <= int(index) <= int(count):
        raise UsageError(f"{flag}: expected a share from 1/{int(count)} up to N/N, got {value}")
    if int(count) > MOST_SHARDS:
        raise UsageError(f"{flag}: at most {MOST_SHARDS} shards, got {value}")
    return f"{int(index)}/{int(count)}"


def read_span(flag: str, text: str) -> float:
    """Parse seconds: ``90``, ``90s``, ``10m``, ``2h``."""
    factor = SPANS_S.get(text[-1:])
    try:
        number = read_number(flag, text[:-1] if factor is not None else text)
    except UsageError:
        number = 0.0
    if number == 0:
        raise UsageError(f"{flag}: expected a time such as 90, 90s, 10m or 2h, got {text!r}")
    return number * (1.0 if factor is None else factor)


def read_window(flag: str, value: str) -> str:
    """Check ``50..60``; return it unchanged."""
    low, dots, high = value.partition("..")
    if not dots or read_number(flag, low or "-") >= read_number(flag, high or "-"):
        raise UsageError(f"{flag}: expected two temperatures such as 50..60, got {value!r}")
    return value


READERS: Mapping[str, Callable[[str, str], Any]] = {
    "text": read_text,
    "output file": read_text,
    "output folder": read_text,
    "switch": read_switch,
    "number": read_number,
    "share": read_share,
    "seconds": read_seconds,
    "limit": read_limit,
    "span": read_span,
    "ratio": read_ratio,
    "pair": read_pair,
    "devices": read_devices,
    "threads": read_threads,
    "window": read_window,
    "shard": read_shard,
}
"""Kinds of settings that need no more of their row than its name."""


def read_value(row: Setting, where: str, text: str) -> Any:
    """Return the value of one text; `where` names the flag, or the file with the key."""
    if row.kind == "choice":
        return read_choice(where, text, row.choices)
    if row.kind == "whole":
        return read_whole(where, text, row.least, row.most)
    return READERS[row.kind](where, text)


def read_values(row: Setting, where: str, texts: list[str]) -> Any:
    """Return the value of a setting that may be given again."""
    values = (read_value(row, where, text) for text in texts)
    return dict(values) if isinstance(row.default, dict) else tuple(values)


def flag_values(arguments: Mapping[str, Any], cls: type) -> dict[str, Any]:
    """Return the fields that the command line sets; docopt gives None, False or [] for what is
    absent."""
    values: dict[str, Any] = {}
    for name, row in rows_of(cls).items():
        given = arguments.get(row.flag)
        if given is None or given is False or given == []:
            continue
        if given is True:
            values[name] = True
        else:
            values[name] = (read_values if row.many else read_value)(row, row.flag, given)
    return values


def _config_text(where: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\0" in text:
        raise UsageError(f"--config: {where}: holds a NUL character, which no name can")
    return text


def config_values(path: str) -> dict[str, Any]:
    """Return the fields that a TOML file sets. Unknown keys and tables are errors that name the
    file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(read_regular(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"--config: {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--config: {path}: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"--config: {path}: not TOML: {error}") from None
    known_rows = (*rows_of(Options).values(), *rows_of(Spellings).values())
    rows = {row.flag: row for row in known_rows if row.flag}
    values: dict[str, Any] = {}
    for key, value in table.items():
        flag = "--" + key.replace("_", "-")
        if key == "graphs":
            graphs = value if isinstance(value, list) else [value]
            values["graphs"] = tuple(_config_text(f"{path}: {key}", graph) for graph in graphs)
            continue
        if flag not in rows:
            known = ("graphs", *(flag[2:] for flag in rows))
            meant = nearest(key, known, "bench-run help all")
            raise UsageError(f"--config: {path}: unknown key {key!r}{meant}")
        row, where = rows[flag], f"{path}: {key}"
        if row.many:
            values[row.name] = read_values(row, where, _items(where, value))
        elif isinstance(value, (list, dict)):
            raise UsageError(f"--config: {where}: expected one value")
        else:
            values[row.name] = read_value(row, where, _config_text(where, value))
    return values


def _items(where: str, value: object) -> list[str]:
    if isinstance(value, dict):
        texts = (f"{key}={_config_text(where, item)}" for key, item in value.items())
        return [_config_text(where, text) for text in texts]
    if isinstance(value, list):
        return [_config_text(where, item) for item in value]
    if isinstance(value, str):
        return [_config_text(where, value)]
    raise UsageError(f"--config: {where}: expected a list or a table")


def read_options(arguments: Mapping[str, Any]) -> Options:
    """Return the options from docopt's dictionary. Raises `UsageError` that names the flag."""
    return checked(replace(Options(), **given_values(arguments)))


def given_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Options` that the configuration file or the command line sets."""
    path = arguments.get("--config")
    values = {} if path is None else config_values(path) | {"config": path}
    given = flag_values(arguments, Options) | flag_values(arguments, Spellings)
    if arguments.get("GRAPH"):
        given["graphs"] = (*given.get("graphs", ()), *arguments["GRAPH"])
    if any(name in given for name in GRAPHS):  # the line's graphs, in place of the file's
        values = {name: value for name, value in values.items() if name not in GRAPHS}
    return with_derived(with_lists(in_our_words(values | given)))


LIST = re.compile(r"[\w:+.=-]+(?:,[\w:+.=-]+)+")
"""Engines with commas, as dnn-benchmarking takes them."""
BARE_ID = re.compile(r"0[xX][0-9a-fA-F]+|-\d+|[A-Z][A-Z0-9_]*_[A-Z0-9_]*")
"""An engine of hipDNN by its number or its name alone: ``MIOPEN_ENGINE``."""


def with_lists(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with lists of dnn-benchmarking taken apart: engines with commas, of hipDNN
    by their ids alone, and a path of plugins for each of them."""
    engines = values.get("engine", ())
    paths = values.get("plugin_path") or ()
    paths = (paths,) if isinstance(paths, str) else paths
    named = [
        one for text in engines for one in (text.split(",") if LIST.fullmatch(text) else [text])
    ]
    named = [f"hipdnn:{one}" if BARE_ID.fullmatch(one) else one for one in named]
    folders = [
        one for path in paths for one in ([path] if Path(path).exists() else path.split(","))
    ]
    if len(folders) > 1 and len(folders) == len(named):
        named = [f"{one}@{path}" for one, path in zip(named, folders, strict=True)]
        values = {key: value for key, value in values.items() if key != "plugin_path"}
    elif folders != list(paths):
        values = values | {"plugin_path": tuple(folders)}
    if len(named) > len(engines):
        named = list(dict.fromkeys(named))
    return values | {"engine": tuple(named)} if engines else values


def with_derived(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with those that follow from which ones are given: that threads are held,
    and no more rounds than iterations or ``--max-rounds`` allow."""
    derived: dict[str, Any] = {"hold_threads": values.get("threads") is not None}
    named = ("iterations", "max_rounds")
    limits = [values[name] for name in named if values.get(name) is not None]
    if "rounds" not in values and limits:
        derived["rounds"] = max(1, min(Options.rounds, *limits))
    return values | derived


def in_our_words(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with those of `Spellings` as `engine`, or as `a` and `b`."""
    spelled = {name: values[name] for name in rows_of(Spellings) if name in values}
    if not spelled:
        return values
    values = {name: value for name, value in values.items() if name not in spelled}
    values |= _in_opperf_words(spelled, values)
    spelled = {name: value for name, value in spelled.items() if name not in OPPERF}
    if not spelled:
        return values
    named = values.pop("engine", ("hipdnn",))
    flags = {name: rows_of(Spellings)[name].flag for name in spelled}
    first = next(iter(flags.values()))
    if len(named) > 1:
        raise UsageError(f"{first} goes with one --engine, got {len(named)}: {' '.join(named)}")
    if "engine_id" in spelled:
        if len(spelled) > 1:
            raise UsageError(f"--engine-id and {[*flags.values()][1]}: give one or the other")
        return values | {"engine": (_with_id(named[0], "--engine-id", spelled["engine_id"]),)}
    for side, flag in (("a", "--AId"), ("b", "--BId")):
        if f"{side}_id" not in spelled:
            raise UsageError(f"{first} goes with {flag} ID: A/B mode needs --AId and --BId")
        if side in values:
            raise UsageError(f"{flag} and --{side}: give one or the other")
        text = _with_id(named[0], flag, spelled[f"{side}_id"])
        path = spelled.get(f"{side}_path")
        values[side] = text if path is None else f"{text.partition('@')[0]}@{path}"
    return {"iterations": USUAL_ITERATIONS} | values


USUAL_ITERATIONS = 100
"""Iterations of hipDNN's own A/B mode, whose words these are."""
OPPERF = ("context", "output_format", "output_file")
FILES = {"json": "output", "md": "markdown", "csv": "csv"}
"""Formats of opperf, and our settings for files of them."""


def _in_opperf_words(spelled: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that opperf's flags stand for."""
    made: dict[str, Any] = {}
    if "context" in spelled:
        if "engine" in values:
            raise UsageError("--ctx and --engine: give one or the other")
        made["engine"] = (engine_of(spelled["context"], "--ctx "),)
    if "output_format" in spelled or "output_file" in spelled:
        name = FILES[spelled.get("output_format", "json")]
        if name in values:
            raise UsageError(f"--output-file and --{name}: give one or the other")
        made[name] = spelled.get("output_file", STDOUT)
    return made


def _with_id(engine: str, flag: str, identifier: str) -> str:
    """Return the spec with this id: ``hipdnn+option@path`` and ``12`` make
    ``hipdnn:12+option@path``."""
    if not re.fullmatch(r"-?[\w.=]+", identifier):
        raise UsageError(f"{flag}: expected an engine's number or name, got {identifier!r}")
    name = re.match(r"[A-Za-z_][\w-]*(?![\w:-])", engine)
    if name is None:
        raise UsageError(f"{flag} {identifier}: --engine {engine} has an id already; give one")
    return f"{name[0]}:{identifier}{engine[name.end() :]}"


def read_tune_options(arguments: Mapping[str, Any]) -> TuneOptions:
    """Read the options that only `bench-run tune` has; raises `UsageError` that names the flag."""
    return replace(TuneOptions(), **flag_values(arguments, TuneOptions))


def checked(options: Options) -> Options:
    """Return the options, if they make sense together. Raises `UsageError` with the first rule that
    they break."""
    for is_broken, sentence in RULES:
        if is_broken(options):
            raise UsageError(sentence.format(o=options))
    parse_init(options.init)
    return options


RULES: tuple[tuple[Callable[[Options], bool], str], ...] = (
    (
        lambda o: (o.a is None) != (o.b is None),
        "--a and --b go together: two engines to compare",
    ),
    (
        lambda o: o.a is None and (o.a_python or o.b_python) is not None,
        "--a-python and --b-python say where --a and --b run: give these too",
    ),
    (
        lambda o: o.warm_caches and o.cache_dir is not None,
        "--warm-caches and --cache-dir name different caches; give one",
    ),
    (
        lambda o: o.oracle and o.vendor_caches != "fresh",
        "--oracle needs caches of its own for each side: leave out --cache-dir and --warm-caches",
    ),
    (
        lambda o: o.oracle and o.a is not None,
        "--oracle and --a/--b: give one or the other",
    ),
    (
        lambda o: o.a is not None and bool(o.engine),
        "--a/--b and --engine: give one or the other",
    ),
    (
        lambda o: o.a is not None and o.devices is not None and len(o.devices) > 1,
        "--a/--b compare two engines on one --device; "
        "for two devices name them: --a cudnn+device=0 --b cudnn+device=1",
    ),
    (
        lambda o: (o.min_time_s or 0) > (math.inf if o.max_time_s is None else o.max_time_s),
        "--min-time {o.min_time_s:g} is more than --max-time {o.max_time_s:g}",
    ),
    (
        lambda o: o.until is not None and o.precision_ratio is not None,
        "--until and --precision: give one or the other",
    ),
    (
        lambda o: o.until is not None and o.oracle,
        "--until and --oracle: give one or the other",
    ),
    (
        lambda o: o.until is None and o.against is not None,
        "--against goes with --until decided",
    ),
    (
        lambda o: o.until is None and o.threshold_ratio != Options.threshold_ratio,
        "--threshold goes with --until decided",
    ),
    (
        lambda o: not o.adds_rounds and o.max_rounds != Options.max_rounds,
        "--max-rounds goes with --precision or --until, which add rounds",
    ),
    (
        lambda o: o.adds_rounds and o.max_rounds < LEAST_ROUNDS,
        f"--max-rounds {{o.max_rounds}}: an interval takes at least {LEAST_ROUNDS} rounds",
    ),
    (
        lambda o: o.adds_rounds and o.max_rounds < o.rounds,
        "--max-rounds {o.max_rounds} is less than --rounds {o.rounds}",
    ),
    (
        lambda o: o.cache == "pass" and not o.seams,
        "--cache pass goes with --seams; a chain leaves its caches so by itself",
    ),
    (
        lambda o: o.iterations is not None and o.iterations < o.rounds,
        "--iters {o.iterations} is less than --rounds {o.rounds}: "
        "each round needs at least one iteration",
    ),
    (
        lambda o: o.tuned is not None and (o.a is not None or len(o.engine) > 1),
        "--tuned names its engines itself: give at most one --engine",
    ),
    (
        lambda o: o.resume and o.output in (None, STDOUT),
        "--resume needs -o FILE: the run to continue",
    ),
    (
        lambda o: o.output == STDOUT and STDOUT in (o.csv, o.csv_samples, o.markdown),
        "-o - and a text format: only one can go to stdout ('-')",
    ),
    (
        lambda o: o.trace == STDOUT,
        "--trace: a trace is a file; it does not go to stdout ('-')",
    ),
)
"""Options that do not go together: when, and the sentence that says so."""
