"""The settings of a run as one value. Its defaults are those of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

STDOUT = "-"
"""As the name of a file."""


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
    chain: bool = False
    seams: bool = False
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
    threads: int | None = None
    math: str = "fp32"
    reference: str = "auto"
    tolerance: str = "default"
    rtol: float | None = None
    atol: float | None = None
    golden: str | None = None
    write_golden: str | None = None
    reference_cache: str | None = None
    """Folder for references across runs, or ``off``; None: the user's."""
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
    until: Literal["decided", "settled"] | None = None
    against: str | None = None
    """Document, folder or glob; None: engines of this run are compared."""
    threshold_ratio: float = 0.01
    max_rounds: int = 30
    timeout_s: float = 300.0
    build_timeout_s: float | None = None
    timer: str = "auto"
    cache: str = "hot"
    duty: str = "cool"
    fresh: str = "fork"
    """How a round's workers start: ``fork`` where the engine allows it, else ``exec``."""
    parallel: str | None = None
    """What several devices do at the same time: ``prepare`` or ``measure``."""
    require_idle: bool = False
    prepare: int | None = None
    """Workers of an engine that prepare at the same time on a device; None: as many as the machine
    can."""
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
    tuned: str | None = None
    """A record of `bench-run tune`, whose winners are run."""
    tuned_mismatch: str = "default"
    ray: str | None = None
    """Address of a Ray cluster, or ``local``."""
    shard: str | None = None
    """``2/8``: this process has the second of eight shares of the cases."""
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
    def adds_rounds(self) -> bool:
        """Whether a rule adds rounds to those asked for."""
        return self.until is not None or self.precision_ratio is not None

    @property
    def devices(self) -> tuple[int, ...] | None:
        """The devices asked for, in order; None for every one."""
        return (self.device,) if isinstance(self.device, int) else self.device
