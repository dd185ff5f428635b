"""From a spec to an open handle: library, device, plugins, facts."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.engines.base import EngineFacts
from bench_run.engines.caches import AMD, USERS, cache_environment, caches_text
from bench_run.engines.hipdnn.abilities import field
from bench_run.engines.hipdnn.choosing import HARD, Chooser, parse_choice
from bench_run.engines.hipdnn.engine import HipdnnEngine, Opened, Phases
from bench_run.engines.hipdnn.errors import opening_errors
from bench_run.engines.hipdnn.loading import MODULE, load
from bench_run.engines.hipdnn.plugins import (
    chosen_files,
    file_facts,
    fingerprint,
    loaded_paths,
    mapped_libraries,
    set_paths,
    wanted_paths,
)
from bench_run.engines.hipdnn.timing import open_stream
from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.machine import amd
from bench_run.machine.amd import VISIBLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.engines.hipdnn.choosing import Choice
    from bench_run.engines.hipdnn.loading import Library


# Cache isolation of two builds of one plugin: a worker process for each engine spec, with
# caches of its own and, where it is named, the library behind the plugin.

LIBRARIES = "LD_LIBRARY_PATH"
OPTION = "lib="


def library_folder(spec: EngineSpec) -> str | None:
    """Folder of the library behind the plugin, from ``+lib=DIR``: often it is what differs."""
    folder = None
    for option in spec.options:
        if not option.startswith(OPTION):
            raise UsageError(f"engine {spec.text!r}: no option {option!r}; choose from {OPTION}DIR")
        folder = option.removeprefix(OPTION)
        if not Path(folder).is_dir():
            raise UsageError(f"engine {spec.text!r}: {folder} is not a directory")
    return folder


def arm_environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
    """Variables for the worker of one engine."""
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
    if options.replay:
        raise UsageError("--replay: hipDNN's Python module cannot capture its work")
    wanted = wanted_paths(spec, options)
    device = _take_device(options.device)
    phases = Phases()
    with phases.time("import"):
        library = load(options.prefix)
    _refuse_blind_name(library, choice)
    count = _count_devices(library)
    set_paths(library, wanted, options.plugin_mode)
    with phases.time("handle and plugins"), opening_errors("create_handle", library.version):
        handle = library.module.create_handle()
    loaded = loaded_paths(library, handle)
    files = chosen_files(spec, wanted, loaded)
    stream = open_stream(library, handle, options)
    facts = _facts(library, Chooser(library, handle), choice, files, device)
    knobs = _settings(spec, options, wanted)
    facts = replace(facts, knobs=knobs, device_index=options.device)
    return HipdnnEngine(Opened(library, handle, stream, choice, options, facts, phases, count))


def _take_device(index: int) -> str:
    """Leaves only the wanted device visible, and returns its number on this machine. The
    bindings cannot choose one, and the HIP runtime looks at the variable once, when it loads."""
    visible, number = amd.listed_devices(), amd.device_number(index)
    if visible and index >= len(visible):
        raise EngineUnavailableError(f"hipdnn: --device {index}: {VISIBLE} shows {len(visible)}")
    if index and MODULE in sys.modules:
        raise UsageError(f"hipdnn: --device {index}: {MODULE} is loaded already in this process")
    if index:
        os.environ[VISIBLE] = visible[index] if visible else str(index)
    return number


def _count_devices(library: Library) -> int:
    """Devices that HIP shows; what the variable or amdsmi say where the module cannot tell."""
    if not library.can.has("hip_get_device_count"):
        return len(amd.listed_devices()) or max(1, len(amd.devices()))
    with opening_errors("hip_get_device_count", library.version):
        found = int(library.module.hip_get_device_count())
    if found == 0:
        raise EngineUnavailableError(
            "hipdnn: no AMD GPU is visible; see bench-run doctor for drivers and permissions, "
            f"and {VISIBLE} for what is hidden"
        )
    return found


def _refuse_blind_name(library: Library, choice: Choice) -> None:
    """Releases before named engines count them: a name's hash would be ignored in silence."""
    can = library.can
    tells = can.has("engine_id_to_name") or can.confirms_engine or can.has(HARD)
    if choice.name is not None and not tells:
        raise EngineUnavailableError(
            f"hipdnn: {MODULE} {library.version} has no engine_id_to_name and cannot confirm "
            f"{choice.name}: give the engine's number (1 was MIOpen)"
        )


def _facts(
    library: Library, chooser: Chooser, choice: Choice, files: list[Path], device: str
) -> EngineFacts:
    place, kind = amd.describe_device(device)
    path, sha256 = fingerprint(files)
    libraries = {MODULE: library.version}
    info = None if choice.id is None else chooser.info(choice.id)
    if info is not None:
        libraries[chooser.name_of(choice.id or 0)] = _version(info)
    libraries.update({file.name: file_facts(file) for file in files})
    libraries.update(mapped_libraries())
    if library.backend is not None:
        libraries["backend, loaded first"] = file_facts(library.backend)
    return EngineFacts(
        id=None if choice.id is None else str(choice.id),
        libraries=libraries,
        device=place,
        device_kind=kind,
        plugin_path=path,
        plugin_sha256=sha256,
        abilities=library.can.words,
    )


def _settings(spec: EngineSpec, options: EngineOptions, wanted: tuple[str, ...]) -> dict[str, str]:
    """What was set for this engine, knobs included, as the document says it."""
    found = dict(options.knobs)
    if wanted:
        found["plugin mode"] = options.plugin_mode
    found["caches"] = caches_text(options, USERS)
    folder = library_folder(spec)
    return found if folder is None else {**found, "library folder": folder}


def _version(info: Any) -> str:
    return f"{field(info, 'version', 'of unknown version')} ({field(info, 'plugin_name', '?')})"
