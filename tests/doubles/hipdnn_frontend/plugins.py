"""Plugins and handles. A plugin is a JSON file that ends in ``.so``:

    {"engines": [{"name": "MIOPEN_ENGINE", "id": 1}], "version": "1.0.0", "milliseconds": 0.2,
     "types": ["ConvolutionFwdAttributes"], "wrong": false, "misdeed": {"execute": "segfault"},
     "tuned_milliseconds": 0.176, "search_milliseconds": 50, "waits": [], "waits_after": 0}

Only ``engines`` has to be there. ``types`` are the node types it takes (all of them unless given);
``waits`` are those for which it waits for the device inside `execute`, once the plugin was loaded
``waits_after`` times before.
"""

from __future__ import annotations

import json
import os
import weakref
from pathlib import Path

from . import device, misdeeds
from .surface import behaviour, classes

DEFAULT = Path(__file__).parents[1] / "hipdnn_plugins" / "engines"
_handles = weakref.WeakSet()
_named = []
_additive = True


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return 0 if not name else value - (1 << 64) if value >> 63 else value


class Engine:
    """One engine of a loaded plugin."""

    def __init__(self, path, plugin, engine):
        self.path, self.plugin, self.name = path, plugin, engine["name"]
        self.id = engine.get("id", 1) if behaviour["ids"] == "numbered" else fnv1a(self.name)
        self.types = engine.get("types", plugin.get("types"))
        self.misdeed, self.waits = plugin.get("misdeed", {}), plugin.get("waits", ())

    def takes(self, graph):
        return self.types is None or all(node.type in self.types for node in graph.nodes)

    def do(self, step):
        misdeeds.commit(self.misdeed.get(step))


def _files(paths):
    for path in map(Path, paths):
        yield from [path] if path.is_file() else sorted(path.glob("*.so"))


def _load():
    paths = list(_named)
    if _additive:
        paths.append(os.environ.get("HIPDNN_PLUGIN_DIR", DEFAULT))
    engines, loaded = {}, []
    for path in _files(paths):
        try:
            plugin = json.loads(path.read_text())
        except ValueError:
            continue  # a plugin that does not load is skipped with a log line
        loaded.append(str(path))
        if "waits_after" in plugin and _loads(path) <= plugin["waits_after"]:
            plugin = plugin | {"waits": ()}
        for row in plugin["engines"]:
            engine = Engine(path, plugin, row)
            engine.do("load")
            engines.setdefault(engine.id, engine)
    return engines, loaded


def _loads(path):
    """How often the plugin was loaded, this time included."""
    file = path.with_suffix(".loads")
    with file.open("a") as out:
        out.write("+")
    return file.stat().st_size


def set_engine_plugin_paths(paths, mode=...):
    global _additive
    if not all(isinstance(path, str) for path in paths):
        raise TypeError("set_engine_plugin_paths(): expected list[str]")
    if any(handle._alive for handle in _handles):
        raise RuntimeError("set_engine_plugin_paths: a handle is alive")
    _named[:] = paths
    _additive = mode is ... or mode.name == "ADDITIVE"


class Handle:
    def __init__(self, stream=0):
        self._stream, self._alive = stream or device.STREAM, True
        self._has_stream = not device.NO_STREAM
        self._engines, self._loaded = _load()
        _handles.add(self)

    def get(self):
        self._expect_alive()
        return id(self)

    def get_stream(self):
        return self._told_stream()

    def _told_stream(self):
        if not self._has_stream:
            raise RuntimeError("Failed to get stream from hipdnn handle: none was set")
        return self._stream

    def set_stream(self, stream):
        self._take_stream(stream)

    def _take_stream(self, stream):
        self._expect_alive()
        self._stream, self._has_stream = stream, True

    def _expect_alive(self):
        if not self._alive:
            raise RuntimeError("the handle was destroyed")

    def get_loaded_engine_plugin_paths(self):
        self._expect_alive()
        return list(self._loaded)

    def get_engine_info(self, engine_id):
        self._expect_alive()
        if engine_id not in self._engines:
            raise IndexError(f"no loaded plugin has engine {engine_id}")
        return classes["EngineInfo"](self._engines[engine_id])


def create_handle(stream=0):
    return classes["Handle"](stream)


def get_stream(handle):
    return handle._told_stream()


def set_stream(handle, stream):
    handle._take_stream(stream)


def destroy_handle(handle):
    handle._expect_alive()
    handle._alive = False


def get_loaded_engine_plugin_paths(handle):
    handle._expect_alive()
    return list(handle._loaded)


BUILT_IN = ("MIOPEN_ENGINE", "HIPBLASLT_ENGINE")


def engine_id_to_name(engine_id):
    return next((name for name in BUILT_IN if fnv1a(name) == engine_id), "")


class EngineInfo:
    def __init__(self, engine):
        self._engine_id, self._engine_name = engine.id, engine.name
        self._plugin_name, self._type = engine.path.stem, "engine"
        self._version = engine.plugin.get("version", "1.0.0")
