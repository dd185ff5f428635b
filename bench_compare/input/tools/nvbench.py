"""NVBench: ``--json``, ``--jsonbin``. Samples lie in files of little-endian float32 seconds next to
the JSON; what the JSON itself has are summaries, as tags with values in text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import Device, Outcome, Work
from bench_schema.errors import DocumentError

import bench_compare.input.tools.values as v
from bench_compare.input.tools.build import About, Measured, both, document, series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Document, Samples, Summary

    from bench_compare.input.tools.values import Table

    Values = Mapping[str, Table]

SAMPLE_TAGS = (
    "nv/json/bin:nv/cold/sample_times",
    "nv/json/bin:nv/cpu_only/sample_times",
    "nv/json/bin:sample_times",
)
GPU_TAGS = ("nv/cold/time/gpu", "nv/batch/time/gpu")
CPU_TAGS = ("nv/cold/time/cpu", "nv/cpu_only/time/cpu")
NAMES = {"mean": "mean", "median": "median", "min": "min", "max": "max", "std": "stdev/absolute"}


def sniff(tree: Any) -> str | None:
    found = v.table(tree)
    version = v.table(v.table(found.get("meta")).get("version"))
    if "nvbench" not in version or not isinstance(found.get("benchmarks"), list):
        return None
    return v.text(v.table(version.get("json")).get("string")) or "json"


def read(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    version = v.table(v.table(tree["meta"]["version"]).get("nvbench"))
    measured = [
        _state(v.text(benchmark.get("name")) or v.UNKNOWN, state, path)
        for benchmark in v.rows(tree["benchmarks"])
        for state in v.rows(benchmark.get("states"))
    ]
    about = About(
        "nvbench",
        v.text(version.get("string")) or v.UNKNOWN,
        devices=tuple(_devices(tree)),
        timer="events",
        cache="cold",
    )
    return document(about, measured)


def _devices(tree: Table) -> Iterator[Device]:
    for found in v.rows(tree.get("devices")):
        sm = v.whole(found.get("sm_version"))
        yield Device(
            index=v.whole(found.get("id")) or 0,
            name=v.text(found.get("name")) or v.UNKNOWN,
            arch=None if sm is None else f"sm_{sm // 10}",
            memory_bytes=v.whole(found.get("global_memory_size")),
            l2_bytes=v.whole(found.get("l2_cache_size")),
        )


def _state(benchmark: str, state: Table, path: Path) -> Measured:
    axes = [
        f"{axis.get('name')}={axis.get('value')}"
        for axis in v.rows(state.get("axis_values"))
        if axis.get("name") != "Device"
    ]
    name = f"{benchmark} [{' '.join(axes)}]" if axes else benchmark
    device = v.whole(state.get("device"))
    if state.get("is_skipped"):
        reason = v.text(state.get("skip_reason")) or "skipped"
        return Measured(name, device_index=device, outcome=Outcome("unsupported", reason))
    values = {
        str(one.get("tag")): {
            str(each.get("name")): each.get("value") for each in v.rows(one["data"])
        }
        for one in v.rows(state.get("summaries"))
        if "data" in one
    }
    gpu, cpu = _summary(values, GPU_TAGS), _summary(values, CPU_TAGS)
    taken = _samples(values, path)
    main = series("e2e_ns" if gpu is None else "device_ns", taken, cpu if gpu is None else gpu)
    host = {} if gpu is None else series("e2e_ns", [], cpu)
    rate = v.number(v.table(values.get("nv/cold/bw/global/bytes_per_second")).get("value"))
    moved = None if rate is None or gpu is None else round(rate * gpu.mean / 1e9)
    return Measured(name, **both(main, host), device_index=device, work=Work(None, moved, None))


def _summary(values: Values, tags: Sequence[str]) -> Summary | None:
    """Return the summary of the first of the tags that the state has; None if it lacks all of
    them."""
    for tag in tags:
        stats = {
            key: v.table(values.get(f"{tag}/{name}")).get("value") for key, name in NAMES.items()
        }
        mean = v.number(stats["mean"])
        if mean is None:
            continue
        relative = v.number(v.table(values.get(f"{tag}/stdev/relative")).get("value"))
        if stats["std"] is None and relative is not None:
            stats["std"] = relative * mean
        count = v.table(values.get(f"nv/{tag.split('/')[1]}/sample_size")).get("value")
        return v.summary({**stats, "n": count}, "s")
    return None


def _samples(values: Values, path: Path) -> list[Samples]:
    """Return the samples of one process, in a file whose name is relative to the JSON or, in files
    of older versions, to the folder in which the benchmark ran. Raises `DocumentError` if the file
    is missing or incomplete."""
    found = next((values[tag] for tag in SAMPLE_TAGS if tag in values), None)
    name = None if found is None else v.text(found.get("filename"))
    if found is None or name is None:
        return []
    last = Path(*re.split(r"[\\/]", name)[-2:])
    places = (path.parent / name, path.parent / last, Path(name))
    file = next((one for one in places if one.is_file()), None)
    if file is None:
        what = f"its samples are in {name}, which is not there; copy the folder too, or write the "
        raise DocumentError(str(path), f"{what}file with --json in place of --jsonbin")
    data, count = file.read_bytes(), v.whole(found.get("size"))
    if len(data) % 4 or (count is not None and len(data) != 4 * count):
        raise DocumentError(str(file), f"{len(data)} bytes, and not {count} samples of 4 bytes")
    return [v.samples(np.frombuffer(data, "<f4").astype(float).tolist(), "s")]
