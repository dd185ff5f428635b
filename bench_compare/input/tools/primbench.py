"""primbench: ``--json-out``; with ``--output-batches`` it holds its iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_schema.document import Device, Work

import bench_compare.input.tools.values as v
from bench_compare.input.tools.build import About, Measured, document, series

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

    from bench_compare.input.tools.values import Table

HOW = ("hot", "seed", "dry")
"""Settings that do not change the work; of the others each makes it another case."""


def sniff(tree: Any) -> str | None:
    found = v.table(tree)
    if not isinstance(found.get("specializations"), list):
        return None
    return v.text(v.table(found.get("context")).get("results_version"))


def read(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    general, settings = (v.table(tree["context"].get(name)) for name in ("general", "settings"))
    backend = v.table(general.get("backend"))
    # Before version 4 the facts of the device are keys of their own: gpu_name.
    flat = {key[4:]: value for key, value in general.items() if key.startswith("gpu_")}
    gpu = v.table(general.get("gpu")) or flat
    device = Device(
        index=0,
        name=v.text(gpu.get("name")) or v.UNKNOWN,
        uuid=v.text(gpu.get("pci_bus_id")),
        arch=v.text(gpu.get("arch")),
    )
    versions = {**general, **backend}.items()
    about = About(
        "primbench",
        layout,
        started=v.text(general.get("date")),
        host=v.text(general.get("host_name")),
        devices=(device,),
        libraries={k: one for k, one in versions if k.endswith("_version") and v.text(one)},
        tags=v.texts(general, commit="commit_hash", branch="branch_name"),
        timer="events",
        cache="hot" if settings.get("hot") is True else "cold",
    )
    work = " ".join(f"{k}={one}" for k, one in sorted(settings.items()) if k not in HOW)
    algorithm = v.text(general.get("algorithm")) or v.UNKNOWN
    measured = [_case(algorithm, work, one) for one in v.rows(tree["specializations"])]
    return document(about, measured)


def _case(algorithm: str, work: str, found: Table) -> Measured:
    """Return the case with its samples if the file holds them; otherwise with the mean of all
    calls, from the rate."""
    items, rate = v.number(found.get("items")), v.number(found.get("items_per_second"))
    mean = None if not items or not rate else items / rate
    taken = v.samples(
        [
            value
            for batch in v.rows(found.get("batches"))
            for value in batch.get("iterations_ms") or ()
        ],
        "ms",
    )
    noise = v.number(found.get("noise_percent"))
    std = None if noise is None or mean is None else noise / 100 * mean
    whole = v.summary(
        {"mean": mean, "n": v.table(found.get("calls")).get("batches"), "std": std}, "s"
    )
    per_item = v.number(found.get("bytes_per_item"))
    moved = None if not items or per_item is None else round(items * per_item)
    return Measured(
        f"{algorithm} [{v.text(found.get('name')) or found.get('index')}]",
        **series("device_ns", [taken], whole),
        device_index=0,
        work=Work(None, moved, None),
        flags=("noise_timeout",) if found.get("noise_timeout") is True else (),
        meaning=f"{work} items={found.get('items')}",
    )
