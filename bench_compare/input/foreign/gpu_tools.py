"""Result files of benchmarks of GPU kernels: NVBench, primbench, tables of Triton."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import Device, Outcome, Work
from bench_schema.errors import DocumentError

import bench_compare.input.foreign.parts as parts
from bench_compare.input.foreign.build import About, Measured, document, samples, series, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Document, Samples, Summary

    from bench_compare.input.foreign.parts import Table

# --- NVBench: --json, --jsonbin ---
#
# Samples lie in files of little-endian float32 seconds next to the JSON; what the JSON itself has
# are summaries, as tags with values in text.

SAMPLE_TAGS = (
    "nv/json/bin:nv/cold/sample_times",
    "nv/json/bin:nv/cpu_only/sample_times",
    "nv/json/bin:sample_times",
)
GPU_TAGS = ("nv/cold/time/gpu", "nv/batch/time/gpu")
CPU_TAGS = ("nv/cold/time/cpu", "nv/cpu_only/time/cpu")


def is_nvbench(tree: Any) -> str | None:
    """Return the format's version; None if the file is not one of nvbench."""
    found = parts.table(tree)
    version = parts.table(parts.table(found.get("meta")).get("version"))
    if "nvbench" not in version or not isinstance(found.get("benchmarks"), list):
        return None
    return parts.text(parts.table(version.get("json")).get("string")) or "json"


def read_nvbench(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    version = parts.table(parts.table(tree["meta"]["version"]).get("nvbench"))
    devices = tuple(_nvbench_devices(tree))
    measured = [
        _nvbench_state(parts.text(benchmark.get("name")) or parts.UNKNOWN, state, path)
        for benchmark in parts.rows(tree["benchmarks"])
        for state in parts.rows(benchmark.get("states"))
    ]
    about = About(
        "nvbench",
        parts.text(version.get("string")) or parts.UNKNOWN,
        devices=devices,
        timer="events",
        cache="cold",
    )
    return document(about, measured, tree)


def _nvbench_devices(tree: Table) -> Iterator[Device]:
    for found in parts.rows(tree.get("devices")):
        sm = parts.whole(found.get("sm_version"))
        yield Device(
            index=parts.whole(found.get("id")) or 0,
            name=parts.text(found.get("name")) or parts.UNKNOWN,
            arch=None if sm is None else f"sm_{sm // 10}",
            memory_bytes=parts.whole(found.get("global_memory_size")),
            l2_bytes=parts.whole(found.get("l2_cache_size")),
        )


def _nvbench_state(benchmark: str, state: Table, path: Path) -> Measured:
    axes = [
        f"{axis.get('name')}={axis.get('value')}"
        for axis in parts.rows(state.get("axis_values"))
        if axis.get("name") != "Device"
    ]
    name = f"{benchmark} [{' '.join(axes)}]" if axes else benchmark
    device = parts.whole(state.get("device"))
    if state.get("is_skipped"):
        reason = parts.text(state.get("skip_reason")) or "skipped"
        return Measured(name, device_index=device, outcome=Outcome("unsupported", reason))
    values = {
        str(one.get("tag")): {
            str(datum.get("name")): _number(datum.get("value"))
            for datum in parts.rows(one.get("data"))
        }
        for one in parts.rows(state.get("summaries"))
    }
    gpu, cpu = (_nvbench_summary(values, tags) for tags in (GPU_TAGS, CPU_TAGS))
    timed = "e2e_ns" if gpu is None else "device_ns"
    main = series(timed, _nvbench_samples(values, path), cpu if gpu is None else gpu)
    if gpu is not None and cpu is not None:
        main["summary"] = {**main.get("summary", {}), "e2e_ns": cpu}
    rate = parts.number(values.get("nv/cold/bw/global/bytes_per_second", {}).get("value"))
    moved = None if rate is None or gpu is None else round(rate * gpu.mean / 1e9)
    return Measured(name, **main, device_index=device, work=Work(None, moved, None))


def _number(value: Any) -> Any:
    """Return the number in a text; the text if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _nvbench_summary(
    values: Mapping[str, Mapping[str, Any]], tags: Sequence[str]
) -> Summary | None:
    """Return the summary of the first of the tags that the state has; None if it lacks all of
    them."""
    for tag in tags:
        mean = values.get(f"{tag}/mean", {}).get("value")
        if mean is None:
            continue
        names = {"median": "median", "min": "min", "max": "max", "std": "stdev/absolute"}
        kind = tag.split("/")[1]
        stats = {key: values.get(f"{tag}/{name}", {}).get("value") for key, name in names.items()}
        relative = parts.number(values.get(f"{tag}/stdev/relative", {}).get("value"))
        if stats["std"] is None and relative is not None:
            stats["std"] = relative * mean
        count = values.get(f"nv/{kind}/sample_size", {}).get("value")
        return summary({**stats, "mean": mean, "n": count}, "s")
    return None


def _nvbench_samples(values: Mapping[str, Mapping[str, Any]], path: Path) -> list[Samples]:
    """Return the samples of one process, in a file whose name is relative to the JSON or, in files
    of older versions, to the folder in which the benchmark ran. Raises `DocumentError` if the file
    is missing or incomplete."""
    found = next((values[tag] for tag in SAMPLE_TAGS if tag in values), None)
    name = None if found is None else parts.text(found.get("filename"))
    if found is None or name is None:
        return []
    last = Path(*re.split(r"[\\/]", name)[-2:])
    places = (path.parent / name, path.parent / last, Path(name))
    file = next((one for one in places if one.is_file()), None)
    if file is None:
        raise DocumentError(
            str(path),
            f"its samples are in {name}, which is not there; copy the folder too, or write the "
            "file with --json in place of --jsonbin",
        )
    data = file.read_bytes()
    count = parts.whole(found.get("size"))
    if len(data) % 4 or (count is not None and len(data) != 4 * count):
        raise DocumentError(str(file), f"{len(data)} bytes, and not {count} samples of 4 bytes")
    return [samples(np.frombuffer(data, "<f4").astype(float).tolist(), "s")]


def is_primbench(tree: Any) -> str | None:
    """Return the format's version; None for a tree in another format."""
    found = parts.table(tree)
    if not isinstance(found.get("specializations"), list):
        return None
    return parts.text(parts.table(found.get("context")).get("results_version"))


def read_primbench(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    general = parts.table(tree["context"].get("general"))
    settings = parts.table(tree["context"].get("settings"))
    gpu, backend = parts.table(general.get("gpu")), parts.table(general.get("backend"))
    algorithm = parts.text(general.get("algorithm")) or parts.UNKNOWN
    device = Device(
        index=0,
        name=parts.text(gpu.get("name")) or parts.UNKNOWN,
        uuid=parts.text(gpu.get("pci_bus_id")),
        arch=parts.text(gpu.get("arch")),
    )
    tags = {
        key: text
        for key, name in (("commit", "commit_hash"), ("branch", "branch_name"))
        if (text := parts.text(general.get(name))) is not None
    }
    libraries = {
        key: value for key, value in backend.items() if isinstance(value, str) and key != "name"
    }
    about = About(
        "primbench",
        layout,
        started=parts.text(general.get("date")),
        host=parts.text(general.get("host_name")),
        devices=(device,),
        libraries=libraries,
        tags=tags,
        timer="events",
        cache="warm" if settings.get("hot") is True else "cold",
    )
    measured = [_primbench_case(algorithm, one) for one in parts.rows(tree["specializations"])]
    return document(about, measured, tree)


def _primbench_case(algorithm: str, found: Table) -> Measured:
    """Return the case with its samples if the file was written with --output-batches; otherwise
    with the mean of all calls, from the rate."""
    name = f"{algorithm} [{parts.text(found.get('name')) or found.get('index')}]"
    items, rate = parts.number(found.get("items")), parts.number(found.get("items_per_second"))
    mean = None if not items or not rate else items / rate
    calls = parts.table(found.get("calls"))
    iterations = [
        value
        for batch in parts.rows(found.get("batches"))
        for value in batch.get("iterations_ms") or ()
    ]
    whole = None
    if mean is not None:
        noise = parts.number(found.get("noise_percent"))
        std = None if noise is None else noise / 100 * mean
        whole = summary({"mean": mean, "n": calls.get("batches"), "std": std}, "s")
    taken = samples(iterations, "ms")
    bytes_per_item = parts.number(found.get("bytes_per_item"))
    moved = None if not items or bytes_per_item is None else round(items * bytes_per_item)
    return Measured(
        name,
        **series("device_ns", [taken] if taken.size else [], whole),
        device_index=0,
        work=Work(None, moved, None),
        flags=("noise_timeout",) if found.get("noise_timeout") is True else (),
    )


# --- Triton: the table that perf_report writes ---
#
# Its first columns are the shapes, the others one provider each, with the unit behind the name.

UNIT = re.compile(r"(?P<name>.*?)\s*[(\[](?P<unit>[^()\[\]]+)[)\]]\s*$")
RATES = {"gb/s": ("moved_bytes", 10**9), "tb/s": ("moved_bytes", 10**12)} | {
    word: ("flops", 10**power)
    for power, words in {9: ("gflops", "gflop/s"), 12: ("tflops", "tflop/s")}.items()
    for word in words
}
"""Unit of a rate to the kind of work, and how much of it a rate of 1 does in one second."""
SHOWN_AS = {
    ("moved_bytes", 10**9): "the time of 1 GB",
    ("moved_bytes", 10**12): "the time of 1 TB",
    ("flops", 10**9): "the time of 1 GFLOP",
    ("flops", 10**12): "the time of 1 TFLOP",
}
TIMES = {"ns": "ns", "us": "us", "µs": "us", "ms": "ms", "s": "s", "sec": "s"}


def read_table(text: str, path: Path) -> Document:
    """Read a CSV table with a column for each provider as a document. Raises `DocumentError` for a
    table without a column that has a unit."""
    lines = list(csv.reader(io.StringIO(text)))
    if len(lines) < 2:
        raise DocumentError(str(path), "a table needs a header and one row at least")
    head, *body = lines
    columns = {
        number: (found["name"] or head[number], found["unit"].strip().lower())
        for number, title in enumerate(head)
        if (found := UNIT.match(title)) is not None
        and found["unit"].strip().lower() in {**TIMES, **RATES}
    }
    if not columns:
        raise DocumentError(
            str(path),
            f"no column of this table says its unit ({', '.join(head)}); name it as in "
            "'triton (ms)' or 'triton (GB/s)'",
        )
    first = min(columns)
    measured = []
    for line in body:
        if len(line) != len(head):
            raise DocumentError(str(path), f"a row of {len(line)} values under {len(head)} titles")
        shape = " ".join(
            f"{title}={_short(value)}"
            for title, value in zip(head[:first], line, strict=False)
            if title
        )
        name = shape or path.stem
        for number, (provider, unit) in columns.items():
            measured.append(_table_case(name, provider, unit, _number(line[number])))
    rated = sorted({unit for _, unit in columns.values() if unit in RATES})
    notes = tuple(f"rates in {unit} are shown as {SHOWN_AS[RATES[unit]]}" for unit in rated)
    about = About("triton", "csv", timer="do_bench", notes=notes)
    return document(about, measured, lines)


def _short(value: str) -> str:
    """Format a shape as a whole number if it is one: pandas writes 128.0."""
    return value.removesuffix(".0").removesuffix(".000000").removesuffix(".000")


def _table_case(name: str, provider: str, unit: str, value: Any) -> Measured:
    number = parts.number(value)
    if number is None or number <= 0:
        outcome = Outcome("unsupported", f"the table has {value!r} and no time")
        return Measured(name, engine=provider, outcome=outcome)
    if unit in TIMES:
        time = summary({"median": number}, TIMES[unit])
        return Measured(name, **series("device_ns", [], time), engine=provider)
    kind, amount = RATES[unit]
    time = summary({"median": 1 / number}, "s")
    work = Work(**{"flops": None, "moved_bytes": None, kind: amount})
    return Measured(name, **series("device_ns", [], time), engine=provider, work=work)
