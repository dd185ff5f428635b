"""Origin of a result document: the run and its settings, the machine, the engines."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass, field
from typing import Literal

from bench_schema.settings import RecordedSettings, as_dataclass, rows, rows_of, setting


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    version: str


@rows(frozen=True)
class Settings(RecordedSettings[None]):
    """Settings of the sampling: the requested values and what became of them."""

    worker_start: Literal["exec", "fork"] | None = setting(None, agree="free", merge="listed")
    round_preparation: Literal["alone", "side by side"] | None = setting(
        None, agree="free", merge="listed"
    )
    """Concurrency of plan preparation across rounds."""
    device_parallelism: Literal["none", "prepare", "measure"] | None = setting(
        None, agree="free", resume="same on one host", merge="listed"
    )
    """Concurrency of several devices of a host."""
    vendor_caches: Literal["fresh", "shared", "user"] | None = setting(
        None, agree="should", merge="listed"
    )
    """Caches of the vendor's libraries: made for the run, in a named folder, or the user's own."""
    pass_bytes: int | None = setting(None, word="bytes of a pass")
    """Bytes touched before each iteration, for the cache state *pass*."""
    strict: bool | None = setting(
        None, agree="should", resume="same if known", merge="listed", word="strict validation"
    )
    """True if a process compared outputs that never loads the engine's code."""

    def __post_init__(self) -> None:
        """Give what version 3 got later a place in documents without it."""
        own = vars(self)
        for name in ("matched", "cosine", "strict"):
            own.setdefault(name, None)
        ordered = {name: own[name] for name in rows_of(Settings) if name in own}
        own.clear()
        own.update(ordered)


as_dataclass(Settings)


@dataclass(frozen=True, slots=True)
class Whole:
    """All shards of a run together."""

    graphs: int
    sha256: str
    """Hash of the graphs and engines: equal for shards of one run in any order of arguments."""


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    label: str | None
    tags: Mapping[str, str]
    started: str
    """ISO 8601 with time zone, as all instants in the document."""
    finished: str | None
    complete: bool
    """False while cases are missing: an interrupted run, or a journal read before its end."""
    command: tuple[str, ...]
    tool: Tool
    settings: Settings
    shard: str | None = None
    """Share of all cases that this run had, as in ``2/8``."""
    whole: Whole | None = None
    """The run that a shard is part of."""
    notes: tuple[str, ...] = ()
    """Notes on the whole run, such as records that were lost to damage."""


@dataclass(frozen=True, slots=True)
class Cpu:
    model: str | None
    cores: int | None
    threads: int | None


DEVICE_LIMITS = {
    "power_limit_w": ("power limit", "W"),
    "max_sm_clock_mhz": ("clocks", "MHz"),
    "max_memory_clock_mhz": ("memory clocks", "MHz"),
}
"""Field of `Device` → word and unit: the same device with another limit is another device."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator. Ceilings are measured on it, not taken from a data sheet."""

    index: int
    name: str
    uuid: str | None = None
    driver: str | None = None
    arch: str | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    max_sm_clock_mhz: float | None = None
    max_memory_clock_mhz: float | None = None
    power_limit_w: float | None = None
    ceiling_gbps: float | None = None
    """Measured copy bandwidth, bytes read plus bytes written, GB/s."""
    ceiling_tflops: Mapping[str, float] = field(default_factory=dict)
    """Measured matrix rate by data type, TFLOP/s."""


@dataclass(frozen=True, slots=True)
class Revision:
    """Version control state of the folder the graphs came from."""

    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class Machine:
    host: str
    os: str
    kernel: str
    cpu: Cpu
    memory_bytes: int | None
    python: str
    packages: Mapping[str, str]
    devices: tuple[Device, ...]
    environment: Mapping[str, str]
    """Variables that change which kernel runs (MIOPEN_*, HIPDNN_*, NVIDIA_TF32_OVERRIDE …)."""
    graphs_revision: Revision | None


@dataclass(frozen=True, slots=True)
class EngineRecord:
    key: str
    """Name on the command line, unique in the document; cases refer to it."""
    name: str
    id: str | None
    plugin_path: str | None
    plugin_sha256: str | None
    libraries: Mapping[str, str]
    device: str
    """``cpu`` or the uuid (else the index) of the device in `Machine.devices`."""
    device_kind: str
    """Product name of what it ran on: a comparison of unlike kinds is pointed out."""
    knobs: Mapping[str, str]
    device_index: int | None = None
    """Index of the device in the run, which the machine's list may count differently. None: no
    choice."""
    abilities: Mapping[str, str] | None = None
    """Optional abilities that the library was found to have, by name."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the runs that were merged into a document."""

    run: Run
    machine: Machine
