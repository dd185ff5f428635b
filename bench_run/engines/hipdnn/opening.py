"""Opening of a spec: library, device, plugins, facts."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.engines.base import EngineFacts
from bench_run.engines.caches import AMD, USERS, cache_environment, caches_text
from bench_run.engines.hipdnn.choosing import Chooser, parse_choice
from bench_run.engines.hipdnn.engine import HipdnnEngine, Opened, Phases
from bench_run.engines.hipdnn.errors import failure, opening_errors
from bench_run.engines.hipdnn.loading import MODULE, load
from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.machine import amd
from bench_run.machine.amd import VISIBLE
from bench_run.streams.base import FEWEST, LEAD, TAIL, flushed_bytes
from bench_run.streams.hip import GATE_DEPTH, HipStream, loaded_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.streams.hip import Events, StallGate

TIMERS = ("auto", "events", "host")
EVENTS = 4 * (GATE_DEPTH + LEAD + TAIL + FEWEST)
"""Marks that wait for their turn to be read at most."""
FLUSH_BYTES = 1 << 29
"""Twice the 256 MiB of the largest last-level cache (MI300)."""


class OwnEvents:
    """hipDNN's own `HipEvent`, made once and used in turn."""

    name = "hipDNN events"

    def __init__(self, event: Callable[[], Any], stream: int) -> None:
        self._events, self._turn = [event() for _ in range(EVENTS)], 0
        self._stream = stream

    def record(self) -> Any:
        self._turn = (self._turn + 1) % len(self._events)
        event = self._events[self._turn]
        event.record(self._stream)
        return event

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end))


def open_stream(library: Library, handle: Any, options: EngineOptions) -> HipStream:
    """Return the handle's stream with the best clock, or the requested one."""
    if options.timer not in TIMERS:
        raise UsageError(f"--timer {options.timer}: engine hipdnn knows {', '.join(TIMERS)}")
    with library.calling("Handle.get_stream"):
        stream = int(handle.get_stream())
    events = None if options.timer == "host" else find_events(library, stream)
    if events is None and options.timer == "events":
        raise EngineUnavailableError(
            f"hipdnn: --timer events: {library.version} has no HipEvent that works on this device"
        )
    size = flushed_bytes(options.cache, FLUSH_BYTES, options.pass_bytes)
    flush, may_wait = (None, False) if size is None else _flush(library, stream, size)
    module, version = library.module, library.version
    return HipStream(
        lambda: module.hip_stream_synchronize(stream),
        events,
        None if events is None else find_gate(library),
        flush,
        number=stream,
        flush_may_wait=may_wait,
        wait_for_device=lambda: _guarded(module.hip_device_synchronize, version),
        make_empty=lambda: _empty_kernel(stream, version),
        library=f"hipdnn {version}",
    )


def find_events(library: Library, stream: int) -> Events | None:
    """Return hipDNN's events after one try; None if they fail."""
    try:
        events = OwnEvents(library.module.HipEvent, stream)
        events.record()
    except Exception:  # foreign: a driver's words; the host's clock is left
        return None
    return events


def find_gate(library: Library) -> StallGate | str:
    """Return the gate, not tried yet, or why there is none: one that this driver cannot have raises
    in its constructor, or in the function that tells."""
    try:
        if not library.module.hip_can_use_stream_wait_value():
            return "the driver cannot wait for a value on a stream"
        gate: StallGate = library.module.HipStallGate()
    except Exception as error:  # foreign: a driver's words; without a gate it is measured too
        return str(failure("HipStallGate", error, library.version))
    return gate


def _empty_kernel(stream: int, version: str) -> Callable[[], None] | None:
    runtime = loaded_runtime()
    launch = None if runtime is None else runtime.empty_kernel(stream)
    return None if launch is None else lambda: _guarded(launch, version, "empty kernel")


def _flush(library: Library, stream: int, size: int) -> tuple[Callable[[], None], bool]:
    """Return a function that overwrites `size` bytes, and True if it may wait for the device, as
    hipDNN's own memset may."""
    with library.calling(f"DeviceBuffer of {size} bytes to flush caches"):
        buffer = library.module.DeviceBuffer(size)
        address = int(buffer.ptr())
    runtime, version = loaded_runtime(), library.version
    if runtime is not None:
        fill = runtime.memset
        return lambda: _guarded(lambda: fill(address, 0, size, stream), version), False
    return lambda: _guarded(buffer.zeros, version), True


def _guarded(action: Callable[[], Any], version: str, step: str = "cache flush") -> None:
    try:
        action()
    except Exception as error:  # foreign: a driver's words
        raise failure(step, error, version) from error


MODES = ("absolute", "additive")
PROVIDERS = (
    "libMIOpen",
    "libhipblaslt",
    "librocblas",
    "libhipdnn",
    "libamdhip64",
    "libhsa-runtime",
)
"""Libraries behind the plugins whose very file decides what runs."""
USUAL = ("hipdnn_plugins", "engines")
"""Folder that hipDNN loads plugins from by itself, below its backend."""
LARGEST_HASHED_BYTES = 256 << 20
LOG_HINT = "run once with HIPDNN_LOG_LEVEL=info to see why"


def wanted_paths(spec: EngineSpec, options: EngineOptions) -> tuple[str, ...]:
    """Return the plugins that the user named, the spec's own first; no others are ever loaded on
    request."""
    own = () if spec.plugin_path is None else (spec.plugin_path,)
    paths = tuple(dict.fromkeys((*own, *options.plugin_paths)))
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"engine {spec.text!r}: there is no plugin path {path}")
        if not plugin_files(path):
            raise UsageError(f"engine {spec.text!r}: no plugin (.so, .dll) in {path}")
    return tuple(str(Path(path).resolve()) for path in paths)


def plugin_files(path: str) -> tuple[Path, ...]:
    """Return the shared objects that a plugin path names: itself, or those in the folder."""
    place = Path(path)
    if place.is_file():
        return (place,)
    return tuple(sorted(p for p in place.iterdir() if p.suffix in (".so", ".dll") and p.is_file()))


def set_paths(library: Library, paths: Sequence[str], mode: str) -> None:
    """Set the plugin paths, before the first handle of the process."""
    if not paths:
        return
    if mode not in MODES:
        raise UsageError(f"--plugin-mode {mode}: choose from {', '.join(MODES)}")
    with opening_errors("set_engine_plugin_paths", library.version):
        mode_ = getattr(library.module.PluginLoadingMode, mode.upper())
        library.module.set_engine_plugin_paths(list(paths), mode_)


def chosen_files(spec: EngineSpec, wanted: Sequence[str]) -> list[Path]:
    """Return the plugin files of the named paths that are in this process's memory; without names
    those of the usual folders. The bindings do not report them, so the memory map is read; without
    a map the named ones are taken. Refuses if none was loaded: its engines would be missing, or
    worse, another build's."""
    named = {file.resolve() for path in wanted for file in plugin_files(path)}
    mapped = mapped_files()
    if mapped is None:
        return sorted(named)
    files = sorted(Path(path) for path in mapped if path.endswith((".so", ".dll")))
    if not named:
        own = os.environ.get("HIPDNN_PLUGIN_DIR")
        return [f for f in files if f.parts[-3:-1] == USUAL or (own and f.parent == Path(own))]
    found = [file for file in files if file in named]
    if not found:
        raise EngineUnavailableError(
            f"engine {spec.text!r}: hipDNN loaded no plugin of {', '.join(wanted)}; {LOG_HINT}"
        )
    return found


def fingerprint(files: Sequence[Path]) -> tuple[str | None, str | None]:
    """Return the path and SHA-256 of the plugin; of several, their folder and the hash of their
    hashes."""
    if not files:
        return None, None
    if len(files) == 1:
        return str(files[0]), sha256(files[0])
    lines = "".join(f"{sha256(file)}  {file.name}\n" for file in sorted(files))
    return str(files[0].parent), hashlib.sha256(lines.encode()).hexdigest()


@lru_cache(maxsize=64)
def sha256(path: Path) -> str | None:
    """Return the hash; None if the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def file_facts(path: Path) -> str:
    """Return place, size, time of last change and, unless the file is huge, the beginning of its
    hash; only the place if the file cannot be read."""
    try:
        state = path.stat()
    except OSError:
        return str(path)
    changed = datetime.fromtimestamp(state.st_mtime, timezone.utc).isoformat(timespec="seconds")
    text = f"{path}, {state.st_size} bytes, changed {changed}"
    if state.st_size > LARGEST_HASHED_BYTES:
        return text
    return f"{text}, sha256 {(sha256(path) or 'unreadable')[:16]}"


def mapped_files(maps: str = "/proc/self/maps") -> set[str] | None:
    """Return files that this process has in memory; None if the system does not say."""
    try:
        lines = Path(maps).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return {line.split(None, 5)[5] for line in lines if len(line.split(None, 5)) == 6}


def mapped_libraries(maps: str = "/proc/self/maps") -> dict[str, str]:
    """Return the provider libraries in this process's memory, with their facts. Two with one name
    are reported with their folders: the wrong one was loaded."""
    found = sorted(
        path for path in mapped_files(maps) or () if Path(path).name.startswith(PROVIDERS)
    )
    names = Counter(Path(path).name for path in found)
    return {
        Path(path).name if names[Path(path).name] == 1 else path: file_facts(Path(path))
        for path in found
    }


# Cache isolation of two builds of one plugin: a worker process for each engine spec, with
# caches of its own and, where it is named, the library behind the plugin.

LIBRARIES = "LD_LIBRARY_PATH"
OPTION = "lib="


def library_folder(spec: EngineSpec) -> str | None:
    """Return the folder of the library behind the plugin, from ``+lib=DIR``: often it is what
    differs."""
    folder = None
    for option in spec.options:
        if not option.startswith(OPTION):
            raise UsageError(f"engine {spec.text!r}: no option {option!r}; choose from {OPTION}DIR")
        folder = option.removeprefix(OPTION)
        if not Path(folder).is_dir():
            raise UsageError(f"engine {spec.text!r}: {folder} is not a directory")
    return folder


def arm_environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
    """Return variables for the worker of one engine."""
    found = cache_environment(options, AMD)
    folder = library_folder(spec)
    if folder is not None:
        here = os.environ.get(LIBRARIES)
        found[LIBRARIES] = folder if not here else f"{folder}{os.pathsep}{here}"
    return found


def open_engine(spec: EngineSpec, options: EngineOptions) -> HipdnnEngine:
    choice = parse_choice(spec.id)
    library_folder(spec)  # refuses unknown options
    if options.knobs and choice.id is None and not choice.every:
        raise UsageError("--knob needs an engine's id: hipdnn:NAME, or hipdnn:all")
    wanted = wanted_paths(spec, options)
    device = _take_device(options.device)
    phases = Phases()
    with phases.time("import"):
        library = load(options.prefix)
    count = _count_devices(library)
    set_paths(library, wanted, options.plugin_mode)
    with phases.time("handle and plugins"), opening_errors("create_handle", library.version):
        handle = library.module.create_handle(*_capturable_stream(options))
    chooser = Chooser(library, handle)
    chooser.info(0)  # plugins are loaded at the latest when a handle is asked for an engine
    files = chosen_files(spec, wanted)
    stream = open_stream(library, handle, options)
    place, kind = amd.describe_device(device)
    path, sha256 = fingerprint(files)
    libraries = {MODULE: library.version}
    info = None if choice.id is None else chooser.info(choice.id)
    if info is not None:
        libraries[chooser.name_of(info.engine_id)] = f"{info.version} ({info.plugin_name})"
    libraries.update({file.name: file_facts(file) for file in files})
    libraries.update(mapped_libraries())
    if library.backend is not None:
        libraries["backend, loaded first"] = file_facts(library.backend)
    facts = EngineFacts(
        id=None if choice.id is None else str(choice.id),
        libraries=libraries,
        device=place,
        device_kind=kind,
        plugin_path=path,
        plugin_sha256=sha256,
        abilities=library.abilities,
    )
    # What was set for this engine, knobs included, as the document says it.
    found = dict(options.knobs)
    if wanted:
        found["plugin mode"] = options.plugin_mode
    found["caches"] = caches_text(options, USERS)
    folder = library_folder(spec)
    knobs = found if folder is None else {**found, "library folder": folder}
    facts = replace(facts, knobs=knobs, device_index=options.device)
    return HipdnnEngine(Opened(library, handle, stream, choice, options, facts, phases, count))


def _capturable_stream(options: EngineOptions) -> tuple[int, ...]:
    """Return a stream of our own for capturing; otherwise nothing: the handle takes the default
    one."""
    if not options.replay:
        return ()
    runtime = loaded_runtime()
    if runtime is None:
        raise EngineUnavailableError("hipdnn: --replay: no HIP runtime is loaded in this process")
    return (runtime.make_stream(),)


def _take_device(index: int) -> str:
    """Leave only the wanted device visible, and return its number on this machine. The bindings
    cannot choose one, and the HIP runtime reads the variable once, when it loads."""
    visible, number = amd.listed_devices(), amd.device_number(index)
    if visible and index >= len(visible):
        raise EngineUnavailableError(f"hipdnn: --device {index}: {VISIBLE} shows {len(visible)}")
    if index and MODULE in sys.modules:
        raise UsageError(f"hipdnn: --device {index}: {MODULE} is loaded already in this process")
    if index:
        os.environ[VISIBLE] = visible[index] if visible else str(index)
    return number


def _count_devices(library: Library) -> int:
    """Return the number of devices that HIP shows. Raises `EngineUnavailableError` if it shows
    none."""
    with opening_errors("hip_get_device_count", library.version):
        found = int(library.module.hip_get_device_count())
    if found == 0:
        raise EngineUnavailableError(
            "hipdnn: no AMD GPU is visible; see bench-run doctor for drivers and permissions, "
            f"and {VISIBLE} for what is hidden"
        )
    return found
