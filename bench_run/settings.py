"""Every setting of a run: those of `RecordedSettings`, and those that leave no trace in a sample.

One field is one row: its default, its flag, its help and how its text is read. From the rows come
the usage and help of the commands, the keys of ``--config``, and the checks of values. This module
stays light, because help needs it; `bench_run.options` makes the dataclasses.
"""

from __future__ import annotations

from bench_schema.settings import RecordedSettings, Setting, rows, setting

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from typing import Literal, NoReturn
else:
    NoReturn = None

STDOUT = "-"
"""File name for stdout."""

TOPICS = {
    "input": ("Graphs", "Input data"),
    "engines": ("Engines", "hipDNN plugins"),
    "measure": ("Sampling", "Conditions", "Separate passes, after the samples"),
    "validate": ("Validation",),
    "output": ("Output files ('-' writes to stdout, in place of the table)", "The run"),
}
"""Topics of ``bench-run help`` with their sections."""
FILES = TOPICS["output"][0]

SDPA_SCALES = ("one", "rsqrt")
DIRECTIONS = ("fwd", "bwd", "joint", "both")


@rows(frozen=True)
class Options(RecordedSettings[NoReturn]):
    """Everything a run needs to know. Its defaults are those of the command line."""

    graphs: tuple[str, ...] = setting(
        (),
        flag="-g, --graph FILE",
        rare=True,
        section="Graphs",
        help="the same as the argument FILE",
        tune=True,
    )
    config: str | None = setting(None)
    """The file that gave some of these settings."""
    hold_threads: bool = setting(False)
    """True if `threads` was requested: engines on the CPU are then pinned to as many cores, and a
    case that uses more is implausible. By default the libraries are only asked for one thread."""
    companions: tuple[str, ...] = setting(())
    """Devices on which other shards of the run measure at the same time."""
    op: tuple[str, ...] = setting(
        (),
        flag="--op SPEC",
        section="Graphs",
        help="make graphs from operation names, shapes and types; also 'family:activations' or "
        "'all' (graphs/README.md)",
        common=True,
        tune=True,
    )
    miopen_driver: tuple[str, ...] = setting(
        (),
        flag="--miopen-driver LINE",
        rare=True,
        section="Graphs",
        help="a MIOpenDriver command line, or a file of them (a log will do)",
        tune=True,
    )
    benchdnn: tuple[str, ...] = setting(
        (),
        flag="--benchdnn LINE",
        rare=True,
        section="Graphs",
        help="a problem of oneDNN's benchdnn, as in 'conv: mb32ic64ih56oc64oh56kh3ph1', or a batch "
        "file of them",
        tune=True,
    )
    shapes: str = setting(
        "common",
        flag="--shapes SET",
        section="Graphs",
        help="shapes where --op names none: small, common, large, skewed, all or random:N, N that "
        "follow from --seed",
        tune=True,
    )
    dtype: str | None = setting(
        None,
        flag="--dtype T",
        section="Graphs",
        help="data type, or several by commas, where --op names none: float64,half",
        tune=True,
    )
    direction: str | None = setting(
        None,
        flag="--direction D",
        section="Graphs",
        help="gradients for --op:",
        choices=DIRECTIONS,
        tune=True,
    )
    scale_batch: int | None = setting(
        None,
        flag="--scale-batch N",
        rare=True,
        section="Graphs",
        help="reduce the batch of every graph to at most N",
        kind="whole",
        tune=True,
    )
    sdpa_scale: str | None = setting(
        None,
        flag="--sdpa-scale S",
        rare=True,
        section="Graphs",
        help="scale of attention graphs that store none: one, or rsqrt for 1/sqrt(head size); "
        "without it the engine hipdnn refuses them",
        choices=SDPA_SCALES,
        tune=True,
    )
    save_graphs: str | None = setting(
        None,
        flag="--save-graphs DIR",
        rare=True,
        section="Graphs",
        help="write the graphs of --op, --miopen-driver and --benchdnn to DIR",
        kind="output folder",
    )
    save_suite: str | None = setting(
        None,
        flag="--save-suite FILE",
        rare=True,
        section="Graphs",
        help="write all graphs as a suite (.toml) with how often each occurs, equal ones once: "
        "for folders that HIPDNN_LOG_GRAPH_DIR filled, and for logs",
    )
    chain: bool = setting(
        False,
        flag="--chain",
        rare=True,
        section="Graphs",
        help="run each pipeline (.toml) as one case: its graphs one after another, handing their "
        "results on",
    )
    seams: bool = setting(
        False,
        flag="--seams",
        rare=True,
        section="Graphs",
        help="run each graph of a pipeline alone, and each pair of neighbours as one case; with "
        "--chain the whole as well, in the same rounds",
    )
    rerun_from: str | None = setting(
        None,
        flag="--rerun-from FILE",
        section="Graphs",
        help="measure the run of a result document again; of a JSON report of bench-compare only "
        "what it calls slower or unclear",
    )
    ray: str | None = setting(
        None,
        flag="--ray ADDRESS",
        rare=True,
        section="Graphs",
        help="share the graphs among the GPUs of a Ray cluster: HOST:PORT, 'auto' for the one "
        "of this host, 'local' for one of just this host. Needs dnn-bench[ray]",
    )
    shard: str | None = setting(
        None,
        flag="--shard I/N",
        section="Graphs",
        help="only share I of N, from 1/N to N/N; `bench-run merge` makes one document of all",
        kind="shard",
    )
    tuned: str | None = setting(
        None,
        flag="--tuned FILE",
        rare=True,
        section="Graphs",
        help="use the winners of a record of bench-run tune; a graph whose entry does not fit this "
        "machine runs with the default, and its case says why",
    )
    tuned_mismatch: str = setting(
        "default",
        flag="--tuned-mismatch M",
        rare=True,
        section="Graphs",
        help="default, or error: run nothing if an entry does not fit",
        choices=("default", "error"),
    )
    dry_run: bool = setting(
        False,
        flag="--dry-run",
        section="Graphs",
        help="list the cases and how long they will take, and stop",
        common=True,
    )
    engine: tuple[str, ...] = setting(
        (),
        flag="-e, --engine SPEC",
        section="Engines",
        help="name[:id][+option][@plugin path]; give it again for more engines, which are "
        "measured in turn (default auto)",
        common=True,
        tune=True,
    )
    a: str | None = setting(
        None,
        flag="--a SPEC",
        section="Engines",
        help="with --b: compare two engines in one run; the outputs of B are validated against "
        "those of A",
        common=True,
    )
    b: str | None = setting(
        None, flag="--b SPEC", section="Engines", help="the second engine", common=True
    )
    a_python: str | None = setting(
        None,
        flag="--a-python FILE",
        rare=True,
        section="Engines",
        help="Python interpreter of the environment in which --a runs; it has dnn-bench, too",
    )
    b_python: str | None = setting(
        None, flag="--b-python FILE", rare=True, section="Engines", help="the same of --b"
    )
    device: int | tuple[int, ...] | None = setting(
        0,
        flag="--device N",
        section="Engines",
        help="index of the GPU; several, as in 0,2, run every graph on each of them, one "
        "measured at a time; all shares the graphs among the GPUs of this host, which measure at "
        "the same time. For one engine only: ENGINE+device=N",
        kind="devices",
        common=True,
        tune=True,
    )
    """None: all, each with a share of the graphs."""
    require_idle: bool = setting(
        False,
        flag="--require-idle",
        rare=True,
        section="Engines",
        help="refuse a device that other processes use",
    )
    oracle: bool = setting(
        False,
        flag="--oracle",
        rare=True,
        section="Engines",
        help="run each engine a second time after its own search for the fastest plan, and report "
        "how much its default loses (hipdnn:ID or hipdnn:all)",
    )
    cache_dir: str | None = setting(
        None,
        flag="--cache-dir DIR",
        rare=True,
        section="Engines",
        help="keep library caches in DIR between runs; by default each run starts with empty ones",
        tune=True,
    )
    warm_caches: bool = setting(
        False,
        flag="--warm-caches",
        rare=True,
        section="Engines",
        help="use your existing library caches (ignored by default)",
        tune=True,
    )
    plugin_path: tuple[str, ...] = setting(
        (),
        flag="--plugin-path DIR",
        section="hipDNN plugins",
        help="folder of engine plugins",
        tune=True,
    )
    plugin_mode: str = setting(
        "absolute",
        flag="--plugin-mode MODE",
        rare=True,
        section="hipDNN plugins",
        help="absolute: only these plugins; additive: also those that hipDNN finds by itself",
        choices=("absolute", "additive"),
        tune=True,
    )
    hipdnn_prefix: str | None = setting(
        None,
        flag="--hipdnn-prefix DIR",
        rare=True,
        section="hipDNN plugins",
        help="installation prefix in which to look for hipdnn_frontend",
        tune=True,
    )
    against: str | None = setting(
        None,
        flag="--against FILE",
        rare=True,
        section="Sampling",
        help="with --until decided: compare with this result document of an earlier run in place "
        "of engines of this one (also a folder or a glob)",
    )
    fresh: str = setting(
        "fork",
        flag="--fresh HOW",
        rare=True,
        section="Sampling",
        help="how a round starts its processes: fork, from a template that has imported the GPU "
        "library (where that is safe), or exec, each from nothing",
        choices=("fork", "exec"),
        tune=True,
    )
    prepare: int | None = setting(
        None,
        flag="--prepare N",
        rare=True,
        section="Sampling",
        help="processes that prepare rounds at the same time on a GPU, while one measures "
        "(default: as cores and memory allow)",
        kind="whole",
    )
    build_timeout_s: float | None = setting(
        None,
        flag="--build-timeout S",
        rare=True,
        section="Sampling",
        help="limit for building a plan (default 60 for each variant of ENGINE:all, else as "
        "--timeout)",
        kind="seconds",
        tune=True,
    )
    energy: bool = setting(
        False,
        flag="--energy",
        section="Separate passes, after the samples",
        help="joules per iteration, over one second in each round",
        tune=True,
    )
    observer: tuple[str, ...] = setting(
        (),
        flag="--observer FILE",
        section="Separate passes, after the samples",
        help="a Python file of yours that looks at each round; its numbers stand in tables, the "
        "document and comparisons (see bench-run help running)",
    )
    trace: str | None = setting(
        None,
        flag="--trace FILE",
        section="Separate passes, after the samples",
        help="Chrome trace of a few iterations",
        kind="output file",
    )
    counters: str | None = setting(
        None,
        flag="--counters SET",
        section="Separate passes, after the samples",
        help="hardware counters, by Nsight Compute, rocprofv3 or, on a processor, perf: basic, "
        "memory or compute",
    )
    golden: str | None = setting(
        None,
        flag="--golden DIR",
        rare=True,
        section="Validation",
        help="folder with golden tensors",
        tune=True,
    )
    write_golden: str | None = setting(
        None,
        flag="--write-golden DIR",
        rare=True,
        section="Validation",
        help="write inputs and reference outputs as golden tensors; 'hipdnn:DIR' writes hipDNN's "
        "own file format",
        kind="output folder",
    )
    reference_cache: str | None = setting(
        None,
        flag="--reference-cache D",
        rare=True,
        section="Validation",
        help="references kept across runs: 'off', a folder, or a size (default 2GiB in "
        "~/.cache/bench-run/references)",
        tune=True,
    )
    mismatches: int = setting(
        5,
        flag="--mismatches N",
        rare=True,
        section="Validation",
        help="worst mismatches to record per output",
        least=0,
    )
    adversarial: bool = setting(
        False,
        flag="--adversarial",
        section="Validation",
        help="after the samples run each case on inputs that bring mistakes to light: other seeds, "
        "small and large values, one-hot rows, borders, NaN in gaps, shifted buffers",
    )
    strict: bool = setting(
        False,
        flag="--strict",
        section="Validation",
        help="on a GPU, let a process that never loads the engine's code read its outputs, "
        "where the driver allows it; elsewhere it always does. Time executions of every engine by "
        "the clock of the run, too, not only those of kernel files",
    )
    save_outputs: str | None = setting(
        None,
        flag="--save-outputs DIR",
        rare=True,
        section="Validation",
        help="write the outputs of the first execution",
        kind="output folder",
    )
    output: str | None = setting(
        None,
        flag="-o, --output FILE",
        section=FILES,
        help="result document (.json, .json.gz, .json.zst); '-' when all is measured: nothing is "
        "kept of a run that is killed",
        kind="output file",
        common=True,
    )
    csv: str | None = setting(
        None,
        flag="--csv FILE",
        section=FILES,
        help="one row per case",
        kind="output file",
        common=True,
    )
    csv_samples: str | None = setting(
        None,
        flag="--csv-samples FILE",
        rare=True,
        section=FILES,
        help="one row per iteration",
        kind="output file",
    )
    markdown: str | None = setting(
        None,
        flag="--markdown FILE",
        section=FILES,
        help="table in Markdown",
        kind="output file",
        common=True,
    )
    label: str | None = setting(
        None,
        flag="--label NAME",
        section="The run",
        help="name of this run; documents with the same label are repeats of one measurement",
        common=True,
    )
    tag: tuple[tuple[str, str], ...] = setting(
        (),
        flag="--tag KEY=VALUE",
        rare=True,
        section="The run",
        help="metadata to store",
        kind="pair",
    )
    resume: bool = setting(
        False,
        flag="--resume",
        section="The run",
        help="continue the unfinished run of the output file",
        common=True,
        tune=True,
    )
    force: bool = setting(
        False,
        flag="--force",
        section="The run",
        help="replace the run, or the record of tune, that the output file holds",
        common=True,
        tune=True,
    )
    watch: bool = setting(
        False,
        flag="--watch",
        rare=True,
        section="The run",
        help="measure the functions of kernel@FILE again at each save of the file, until Ctrl-C",
    )
    quiet: bool = setting(
        False,
        flag="-q, --quiet",
        section="The run",
        help="no progress and no table",
        common=True,
        tune=True,
    )
    verbose: bool = setting(
        False,
        flag="-v, --verbose",
        section="The run",
        help="all statistics of every case",
        common=True,
    )

    @property
    def vendor_caches(self) -> Literal["fresh", "shared", "user"]:
        """Return the disk caches that the engines' libraries use."""
        if self.warm_caches:
            return "user"
        return "fresh" if self.cache_dir is None else "shared"

    @property
    def worker_start(self) -> str:
        """``fork`` or ``exec``: how workers start, where their engine allows it. A template is not
        worth its start for a single round."""
        return self.fresh if self.rounds > 1 else "exec"

    @property
    def adds_rounds(self) -> bool:
        """True if a rule adds rounds to the requested ones."""
        return self.until is not None or self.precision_ratio is not None

    @property
    def devices(self) -> tuple[int, ...] | None:
        """The requested devices, in order; None for all of this host."""
        return (self.device,) if isinstance(self.device, int) else self.device


@rows(frozen=True)
class TuneOptions:
    """Options of `bench-run tune` in addition to the settings of a run."""

    space: tuple[str, ...] = setting(
        (),
        flag="--space AXIS",
        help="AXIS=VALUE,VALUE...; give it again for more axes: engine=SPEC,...; "
        "dtype=half,int8,...|all; layout=nchw,nhwc|all; math=fp32,tf32,fast; fusion=on,off; "
        "threads=1,2; approx=perf:1/2:row:0,samp:1/4:1; plan=all; knob:NAME=all (as the engine "
        "lists them); "
        "or a FILE of them",
    )
    scope: Literal["layer", "global"] = setting(
        "layer",
        flag="--scope SCOPE",
        help="layer: the best of each graph; global: one combination for all graphs",
        choices=("layer", "global"),
    )
    limit: tuple[str, ...] = setting(
        (),
        flag="--limit RULE",
        help="error=X (relative L2), workspace=SIZE such as 256MiB, or deterministic; candidates "
        "beyond it are left out",
    )
    margin_ratio: float = setting(
        0.005,
        flag="--margin P",
        help="a gain that is worth leaving the default, and the difference within which "
        "candidates are equal",
        kind="ratio",
    )
    budget_s: float | None = setting(
        None,
        flag="--budget T",
        help="time for all of it, such as 90s, 10m or 2h; every finalist gets its --rounds even so",
        kind="span",
    )
    exhaustive: bool = setting(
        False,
        flag="--exhaustive",
        help="measure every candidate in ordinary rounds: the record then has the case of each",
    )


@rows(frozen=True)
class Spellings:
    """Flags of dnn-benchmarking and of MXNet's opperf that say what others say here:
    `bench_run.options.read` turns them into `engine`, `a` and `b`, and into files."""

    engine_id: str | None = setting(
        None,
        flag="--engine-id ID",
        rare=True,
        section="hipDNN plugins",
        help="an engine by its number or name: --engine hipdnn:ID",
    )
    a_id: str | None = setting(
        None,
        flag="--AId ID",
        rare=True,
        section="hipDNN plugins",
        help="with --BId: compare two engines in one run, as --a hipdnn:ID@DIR does; --engine then "
        "names another library than hipdnn",
    )
    a_path: str | None = setting(
        None,
        flag="--APath DIR",
        rare=True,
        section="hipDNN plugins",
        help="plugins of A, if they are not those of --plugin-path",
    )
    b_id: str | None = setting(
        None, flag="--BId ID", rare=True, section="hipDNN plugins", help="the second engine"
    )
    b_path: str | None = setting(
        None, flag="--BPath DIR", rare=True, section="hipDNN plugins", help="plugins of B"
    )
    context: str | None = setting(
        None,
        flag="--ctx DEVICE",
        rare=True,
        section="Engines",
        help="opperf's word for a device: cpu or gpu(0), with PyTorch; NumPy without",
    )
    output_format: Literal["json", "md", "csv"] | None = setting(
        None,
        flag="--output-format FORMAT",
        rare=True,
        section=FILES,
        choices=("json", "md", "csv"),
        help="what --output-file gets: json, as -o does, md or csv",
    )
    output_file: str | None = setting(
        None,
        flag="--output-file FILE",
        rare=True,
        section=FILES,
        kind="output file",
        help="opperf's word for -o FILE, --markdown FILE or --csv FILE",
    )


CONFIG = Setting(
    None,
    flag="--config FILE",
    section="The run",
    help="read any of these settings from TOML; flags win",
    common=True,
    tune=True,
)
HELP = Setting(
    False, flag="-h, --help", section="The run", help="show help", common=True, tune=True
)
VERSION = Setting(False, flag="--version", section="The run", help="show the version")
NO_SETTINGS = (CONFIG, HELP, VERSION)
"""Flags that set nothing."""
