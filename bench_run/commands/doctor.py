"""`bench-run doctor`: what this machine has, and what to install or to permit for what is missing.

The telemetry libraries are the only foreign code that is run: packages are looked up, plugins are
listed by name, devices are read through NVML and amdsmi.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bench_run.commands import CommandOutput

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from bench_schema.document import Case, Document

    from bench_run.options import Options


USAGE = """Report what this machine has for benchmarks (devices, engines, libraries,
plugins, tools, permissions), and how to get what is missing.

With --engine: one tiny graph on that engine, step by step, up to the call at
which it stops. With --report the same as a file for an issue.

Usage:
  bench-run doctor [--engine=SPEC] [--op=SPEC] [--plugin-path=DIR]...
            [--hipdnn-prefix=DIR] [--timeout=S] [--report=FILE] [--force]

Examples:
  bench-run doctor
  bench-run doctor --engine hipdnn --report hipdnn.tar.gz

Options:
  -e, --engine SPEC     try this engine: name[:id][+option][@plugin path]
  --op SPEC             the graph to try (default a convolution of 4 channels)
  --plugin-path DIR     directory with hipDNN plugins
  --hipdnn-prefix DIR   hipDNN installation to search for hipdnn_frontend
  --timeout S           stop after S seconds without an answer (default 300)
  --report FILE         write what is found, what the engine offers for the
                        graph and a short run of seven operations to FILE
                        (.tar.gz); host name, paths and variables are in it
  --force               replace FILE
  -h, --help            show help
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    ok: bool
    what: str
    text: str
    """Place of it, or instructions to get it."""


LIBRARIES = {
    "torch": ("torch", "pip install 'dnn-bench[torch]'"),
    "cudnn": ("nvidia-cudnn-frontend", "pip install 'dnn-bench[cudnn]'"),
    "nvmath": ("nvmath-python", "pip install 'dnn-bench[cublaslt]': products"),
    "pynvml": ("nvidia-ml-py", "pip install 'dnn-bench[cudnn]': NVIDIA telemetry"),
    "cupti": ("cupti-python", "pip install 'dnn-bench[cupti]': kernel records"),
    "hipdnn_frontend": ("hipdnn_frontend", "comes with ROCm's hipDNN, or name --hipdnn-prefix DIR"),
    "amdsmi": ("amdsmi", "pip install /opt/rocm/share/amd_smi: AMD telemetry"),
}
"""Module: its package, and how to get it with what for."""

TOOLS = {
    "perf": "counters on a processor: install linux-perf or linux-tools",
    "ncu": "hardware counters on NVIDIA: install Nsight Compute",
    "rocprofv3": "traces and counters on AMD: install rocprofiler-sdk",
    "nvidia-smi": "comes with NVIDIA's driver",
    "amd-smi": "comes with ROCm",
    "rocminfo": "comes with ROCm",
    "git": "revision of the graphs on record: install git",
}
TOOL_FOLDERS = "/opt/rocm/bin"
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128")
PLUGIN_VARIABLE = "HIPDNN_PLUGIN_DIR"
PLUGIN_PLACES = ("lib/hipdnn_plugins/engines", "lib64/hipdnn_plugins/engines")
COUNTERS_FILE = "/proc/driver/nvidia/params"

TINY = "conv_fwd: n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1"
STEPS = {
    "load_ns": "read the graph",
    "import_ns": "load the library, open it and its plugins",
    "build_ns": "make the operation graph",
    "plan_ns": "build the plan, allocate and fill its buffers",
    "search_ns": "run once while the library searches",
    "first_run_ns": "run once and wait",
}
PHASES = {name.removesuffix("_ns"): text for name, text in STEPS.items()} | {
    "validate": "compare the outputs with the reference",
    "gate": "try whether the plan can be held back",
    "measure": "take samples",
}


def answer(arguments: Mapping[str, Any]) -> CommandOutput:

    if not arguments.get("--engine"):
        if arguments.get("--report"):
            from bench_run.errors import UsageError

            raise UsageError("--report: name the engine to report on: --engine hipdnn")
        return CommandOutput(doctor())
    from bench_run.options import read_options

    several = {name: [arguments[name]] for name in ("--engine", "--op") if arguments.get(name)}
    options = read_options({**arguments, **several})
    if arguments.get("--report"):
        return write_report(Path(arguments["--report"]), options)
    text, worked = try_engine(options)
    return CommandOutput(text, 0 if worked else 1)


def doctor() -> str:
    """Return the report, section by section."""
    from tabulate import tabulate

    from bench_run.commands.engines import engine_list
    from bench_run.machine.devices import devices
    from bench_run.machine.host import machine
    from bench_run.options import Options
    from bench_run.text import size_text

    host = machine(devices=devices())
    sections = {
        "Libraries": [library(*row) for row in LIBRARIES.items()],
        "hipDNN plugin folders": plugin_folders(),
        "Tools": [tool(*row) for row in TOOLS.items()],
        "Device files": [device_file(path) for path in DEVICE_FILES],
        "Permissions": permissions(),
        "Kept across runs": kept_folders(),
    }
    accelerators = []
    for device in host.devices:
        facts = [device.arch, None if device.driver is None else f"driver {device.driver}"]
        if device.memory_bytes is not None:
            facts.append(size_text(device.memory_bytes))
        listed = ", ".join([device.name, *(fact for fact in facts if fact)])
        accelerators.append(f"device {device.index}: {listed}")
    lines = [
        f"host {host.host}: {host.os}, kernel {host.kernel}, Python {host.python}",
        f"processor {host.cpu.model}, {host.cpu.cores} cores, {size_text(host.memory_bytes)}",
        *accelerators,
    ]
    if not host.devices:
        lines.append("no accelerator was found: NVML and amdsmi, where installed, see none")
    lines += [f"variable {name}={value}" for name, value in host.environment.items()]
    parts = [*lines, "", "Engines", engine_list(Options())]
    for title, findings in sections.items():
        if findings:
            rows = [("yes" if f.ok else "no", f.what, f.text) for f in findings]
            parts += ["", title, tabulate(rows, tablefmt="plain", disable_numparse=True)]
    return "\n".join(parts)


def library(module: str, install: tuple[str, str]) -> Finding:
    from importlib import metadata, util

    package, how = install
    if util.find_spec(module) is None:
        return Finding(False, module, how)
    try:
        return Finding(True, module, metadata.version(package))
    except metadata.PackageNotFoundError:
        return Finding(True, module, "version unknown")


def tool(name: str, how: str) -> Finding:
    path = shutil.which(name) or shutil.which(name, path=TOOL_FOLDERS)
    return Finding(path is not None, name, path or how)


def plugin_folders(root: Path = Path("/opt")) -> list[Finding]:
    """Return the default plugin folders of hipDNN with their files; none is loaded."""
    named = os.environ.get(PLUGIN_VARIABLE)
    places = [Path(named)] if named else []
    prefixes = sorted(root.glob("rocm*"))
    places += [prefix / place for prefix in prefixes for place in PLUGIN_PLACES]
    found = {}
    for place in places:
        if place.is_dir():
            found[place.resolve()] = sorted(p.name for p in place.iterdir() if p.suffix == ".so")
    if not found:
        hint = f"none in {root}/rocm*; set {PLUGIN_VARIABLE} or use --plugin-path DIR"
        return [Finding(False, "plugins", hint)]
    return [
        Finding(bool(names), str(place), ", ".join(names) or "no plugin in it")
        for place, names in found.items()
    ]


def device_file(path: str) -> Finding:
    place = Path(path)
    if not place.exists():
        return Finding(False, path, "not there: no such device, or its driver is not loaded")
    if os.access(path, os.R_OK | os.W_OK):
        return Finding(True, path, "readable and writable")
    group = "render"
    with suppress(KeyError, OSError):
        group = place.group()
    return Finding(False, path, f"no permission: sudo usermod -aG {group} $USER, then log in again")


def permissions(counters_file: str = COUNTERS_FILE) -> list[Finding]:
    """Return what the driver reserves for the administrator."""
    try:
        text = Path(counters_file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    if "RmProfilingAdminOnly: 1" not in text or os.geteuid() == 0:
        return [Finding(True, "counters", "this user may read NVIDIA's hardware counters")]
    how = "administrator only: load the driver with NVreg_RestrictProfilingToAdminUsers=0"
    return [Finding(False, "counters", how)]


def kept_folders() -> list[Finding]:
    """Return the folder of references with its size."""
    from bench_run.runner.references import kept_references
    from bench_run.text import size_text
    from bench_run.worker.reference_cache import ReferenceCache

    kept = kept_references(None)
    if kept is None:
        return [Finding(False, "references", "no home folder to keep them in")]
    count, size = ReferenceCache(kept.folder).usage()
    most = f"{size_text(size)} of at most {size_text(kept.most_bytes)} (--reference-cache SIZE)"
    return [Finding(count > 0, "references", f"{kept.folder}: {count}, {most}")]


def try_engine(options: Options) -> tuple[str, bool]:
    """Try one tiny graph, step by step, up to the failing step; return a report, and True if every
    step worked."""
    from bench_run.errors import EngineUnavailableError, WorkerError
    from bench_run.runner.benchmark import run_benchmark

    tiny = replace(options, op=options.op or (TINY,), rounds=1, iterations=2, warmup=1, quiet=True)
    try:
        document = run_benchmark(tiny)
    except (EngineUnavailableError, WorkerError) as error:
        return f"no   {STEPS['import_ns']}\n     {error}", False
    case, engine = document.cases[0], document.engines[0]
    worked = case.outcome.status == "completed"
    lines = [
        f"engine {engine.key} on {engine.device_kind} ({engine.device})",
        *(f"  {name}: {version}" for name, version in engine.libraries.items()),
        *(f"  {answer:<3} {name}" for name, answer in (engine.abilities or {}).items()),
        *_steps(case),
    ]
    if worked:
        lines += [f"  {name}: {text}" for name, text in case.plan.items()]
    return "\n".join(lines), worked


SHORT = "suite:smoke"
"""Seven operations of small shapes."""


def write_report(path: Path, options: Options) -> CommandOutput:
    """Write one archive of the doctor's words, the engine's steps, what it offers, and a short run.
    A part that cannot be had is replaced by a sentence with the reason. Raises `OutputError` if the
    file exists."""
    import tarfile
    from tempfile import TemporaryDirectory

    from bench_run.commands.engines import choices_of_graphs
    from bench_run.errors import OutputError
    from bench_run.files import writing
    from bench_run.runner.benchmark import run_benchmark

    if path.exists() and not options.force:
        raise OutputError(f"{path}: is there already; --force replaces it")
    text, worked = try_engine(options)
    with TemporaryDirectory() as place, writing(path):
        folder = Path(place)
        tiny = replace(options, op=options.op or (TINY,))
        short = replace(options, graphs=(SHORT,), op=(), rounds=1, iterations=10, quiet=True)
        short = replace(short, output=str(folder / "run.json"))
        (folder / "doctor.txt").write_text(doctor())
        (folder / "engine.txt").write_text(text)
        (folder / "offers.txt").write_text(_or_why(lambda: "\n".join(choices_of_graphs(tiny))))
        (folder / "run.txt").write_text(_or_why(lambda: _outcomes(run_benchmark(short))))
        names = sorted(file.name for file in folder.iterdir())
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                archive.add(folder / name, f"report/{name}")
    return CommandOutput(f"{text}\n\nFor an issue: {path} ({', '.join(names)})", 0 if worked else 1)


def _or_why(ask: Callable[[], str]) -> str:
    from bench_run.errors import BenchRunError

    try:
        return ask()
    except BenchRunError as error:
        return str(error)


def _outcomes(document: Document) -> str:
    """Return a line for each case."""
    outcomes = [(case.id, case.outcome) for case in document.cases]
    return "\n".join(f"{name}: {o.status} {o.reason or ''}".rstrip() for name, o in outcomes)


def _steps(case: Case) -> Iterator[str]:
    """Yield a line for each completed step; the failed one with its reason."""
    from bench_schema.document import INIT_PHASES

    from bench_run.text import time_text

    if case.outcome.status == "completed":
        for name in INIT_PHASES:
            if name in case.init:
                yield f"yes  {STEPS[name]}, {time_text(int(case.init[name][0]))}"
        check = case.validation
        state = "not checked" if check is None else check.status
        yield f"{'no ' if state == 'failed' else 'yes'}  {PHASES['validate']}: {state}"
        return
    phase = case.outcome.phase or "import"
    for name, text in PHASES.items():
        if name == phase:
            break
        yield f"yes  {text}"
    yield f"no   {PHASES.get(phase, phase)}: {case.outcome.status}"
    yield f"     {case.outcome.reason}"
