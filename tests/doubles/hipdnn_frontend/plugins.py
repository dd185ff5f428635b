"""Plugins and handles. A plugin is a JSON file that ends in ``.so``:

    {"engines": [{"name": "MIOPEN_ENGINE", "id": 1, "knobs": [], "notes": []}],
     "version": "1.0.0", "api": "1.2.0", "milliseconds": 0.2,
     "types": ["ConvolutionFwdAttributes"], "wrong": false, "misdeed": {"execute": "segfault"},
     "fails": {"execute": "GRAPH_EXECUTION_FAILED: no code object"},
     "tuned_milliseconds": 0.176, "search_milliseconds": 50, "waits": [], "waits_after": 0}

Only ``engines`` has to be there. ``types`` are the node types it takes (all of them unless given);
``waits`` are those for which it waits for the device inside `execute`, once the plugin was loaded
``waits_after`` times before. An id that is not the hash of the name, no name, and an ``api`` that
is no version of today's major are what upstream's test plugins do.
"""

from __future__ import annotations

import json
import mmap
import os
import weakref
from pathlib import Path

from . import device, misdeeds
from .surface import make, namespace

DEFAULT = Path(__file__).parents[1] / "hipdnn_plugins" / "engines"
KNOBS = (("global.benchmarking", "INT64", 0, {"min_value": 0, "max_value": 1, "step": 1}),)
NOT_LOADED = "Engine ID is not loaded"
_handles = weakref.WeakSet()
_named = []
_additive = True
_mapped = []
"""Loaded files stay in the process's memory map, as shared objects do."""


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return 0 if not name else value - (1 << 64) if value >> 63 else value


class Engine:
    """One engine of a loaded plugin."""

    def __init__(self, path, plugin, engine):
        self.path, self.plugin, self.name = path, plugin, engine["name"]
        self.id = engine.get("id", fnv1a(self.name or ""))
        self.types = engine.get("types", plugin.get("types"))
        self.knobs, self.notes = engine.get("knobs", KNOBS), engine.get("notes", ())
        self.misdeed, self.waits = plugin.get("misdeed", {}), plugin.get("waits", ())
        self.fails = engine.get("fails", plugin.get("fails", {}))

    @property
    def hexadecimal(self):
        return f"0x{self.id & 0xFFFFFFFFFFFFFFFF:016X}"

    def takes(self, graph):
        return self.types is None or all(node.type in self.types for node in graph.nodes)

    def do(self, step):
        """Misbehaves as the plugin says; returns code and words where it fails at this step."""
        misdeeds.commit(self.misdeed.get(step))
        code, _, words = self.fails.get(step, "").partition(": ")
        return (code, words) if code else None


def _files(paths):
    for path in map(Path, paths):
        yield from [path] if path.is_file() else sorted(path.glob("*.so"))


def _load():
    paths = list(_named)
    if _additive:
        paths.append(os.environ.get("HIPDNN_PLUGIN_DIR", DEFAULT))
    engines = {}
    for path in _files(paths):
        try:
            plugin = json.loads(path.read_text())
        except ValueError:
            continue  # a plugin that does not load is skipped with a log line
        if plugin.get("api", "1.2.0").split(".")[0] != "1":
            continue
        with path.open("rb") as file:
            _mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if "waits_after" in plugin and _loads(path) <= plugin["waits_after"]:
            plugin = plugin | {"waits": ()}
        for row in plugin["engines"]:
            engine = Engine(path, plugin, row)
            engine.do("load")
            engines.setdefault(engine.id, engine)
    return engines


def _loads(path):
    """How often the plugin was loaded, this time included."""
    file = path.with_suffix(".loads")
    with file.open("a") as out:
        out.write("+")
    return file.stat().st_size


def set_engine_plugin_paths(paths, mode):
    global _additive
    if any(handle._alive for handle in _handles):
        raise RuntimeError("Failed to set engine plugin paths")
    _named[:] = paths
    _additive = mode.name == "ADDITIVE"


class Handle:
    def __init__(self, stream=0):
        self._stream, self._alive = stream or device.STREAM, True
        self._engines = _load()
        _handles.add(self)

    def _expect_alive(self):
        if not self._alive:
            raise RuntimeError("Handle has been destroyed")

    def get(self):
        self._expect_alive()
        return id(self)

    __int__ = __index__ = get

    def get_stream(self):
        self._expect_alive()
        return self._stream

    def set_stream(self, stream):
        self._expect_alive()
        self._stream = stream

    def get_engine_info(self, engine_id):
        engine = self._engine(engine_id)
        return make(
            "EngineInfo",
            engine_id=engine.id,
            engine_name=engine.name or "",
            plugin_name=engine.plugin.get("name", engine.path.stem),
            type="HIPDNN_PLUGIN_TYPE_ENGINE",
            version=engine.plugin.get("version", "1.0.0"),
        )

    def engine_id_to_name(self, engine_id):
        return self._engine(engine_id).name or ""

    def _engine(self, engine_id):
        self._expect_alive()
        if engine_id not in self._engines:
            raise IndexError(NOT_LOADED)
        return self._engines[engine_id]


def handle_of(found):
    """The handle whose pointer an object with `get` gives; None where it gives another number."""
    number = found.get()
    return next((h for h in _handles if h._alive and id(h) == number), None)


def create_handle(*stream):
    return namespace["Handle"](*stream)


def get_stream(handle):
    return handle.get_stream()


def set_stream(handle, stream):
    handle.set_stream(stream)


def destroy_handle(handle):
    handle._expect_alive()
    handle._alive = False
    for engine in handle._engines.values():
        engine.do("close")


BUILT_IN = ("MIOPEN_ENGINE", "HIPBLASLT_ENGINE")


def engine_id_to_name(engine_id):
    return next((name for name in BUILT_IN if fnv1a(name) == engine_id), "")
