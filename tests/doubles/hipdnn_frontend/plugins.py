"""Plugins and handles. A plugin is a JSON file that ends in ``.so``:

    {"engines": [{"name": "MIOPEN_ENGINE", "id": 1}], "version": "1.0.0", "milliseconds": 0.2,
     "types": ["ConvolutionFwdAttributes"], "wrong": false, "misdeed": {"execute": "segfault"}}

Only ``engines`` has to be there. ``types`` are the node types it takes (all of them unless given).
"""

from __future__ import annotations

import json
import os
import weakref
from pathlib import Path

from . import misdeeds
from .enums import PluginLoadingMode

DEFAULT = Path(__file__).parents[1] / "hipdnn_plugins" / "engines"
_handles = weakref.WeakSet()
_named = []
_mode = PluginLoadingMode.ADDITIVE


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return 0 if not name else value - (1 << 64) if value >> 63 else value


class Engine:
    """One engine of a loaded plugin."""

    def __init__(self, path, plugin, engine):
        self.path, self.plugin, self.name = path, plugin, engine["name"]
        old = os.environ.get("HIPDNN_DOUBLE_PROFILE") == "old"
        self.id = engine.get("id", 1) if old else fnv1a(self.name)
        self.types = engine.get("types", plugin.get("types"))
        self.misdeed = plugin.get("misdeed", {})

    def takes(self, graph):
        return self.types is None or all(node.type in self.types for node in graph.nodes)

    def do(self, step):
        misdeeds.commit(self.misdeed.get(step))


def _files(paths):
    for path in map(Path, paths):
        yield from [path] if path.is_file() else sorted(path.glob("*.so"))


def _load():
    paths = list(_named)
    if _mode is PluginLoadingMode.ADDITIVE:
        paths.append(os.environ.get("HIPDNN_PLUGIN_DIR", DEFAULT))
    engines, loaded = {}, []
    for path in _files(paths):
        try:
            plugin = json.loads(path.read_text())
        except ValueError:
            continue  # a plugin that does not load is skipped with a log line
        loaded.append(str(path))
        for row in plugin["engines"]:
            engine = Engine(path, plugin, row)
            engine.do("load")
            engines.setdefault(engine.id, engine)
    return engines, loaded


def set_engine_plugin_paths(paths, mode=PluginLoadingMode.ADDITIVE):
    global _mode
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise TypeError("set_engine_plugin_paths(): expected list[str]")
    if any(handle.alive for handle in _handles):
        raise RuntimeError("set_engine_plugin_paths: a handle is alive")
    _named[:] = paths
    _mode = PluginLoadingMode(mode)


class Handle:
    def __init__(self, stream=0):
        self.stream, self.alive = stream, True
        self.engines, self._loaded = _load()
        _handles.add(self)

    def get(self):
        self.expect_alive()
        return id(self)

    def expect_alive(self):
        if not self.alive:
            raise RuntimeError("the handle was destroyed")

    def get_loaded_engine_plugin_paths(self):
        self.expect_alive()
        return list(self._loaded)


def create_handle(stream=0):
    return Handle(stream)


def destroy_handle(handle):
    handle.expect_alive()
    handle.alive = False


def get_loaded_engine_plugin_paths(handle):
    return handle.get_loaded_engine_plugin_paths()


BUILT_IN = ("MIOPEN_ENGINE", "HIPBLASLT_ENGINE")


def engine_id_to_name(engine_id):
    return next((name for name in BUILT_IN if fnv1a(name) == engine_id), "")


class EngineInfo:
    def __init__(self, engine):
        self.engine_id, self.engine_name = engine.id, engine.name
        self.plugin_name, self.type = engine.path.stem, "engine"
        self.version = engine.plugin.get("version", "1.0.0")


def _get_engine_info(self, engine_id):
    self.expect_alive()
    if engine_id not in self.engines:
        raise IndexError(f"no loaded plugin has engine {engine_id}")
    return EngineInfo(self.engines[engine_id])


def with_engine_info(handle_class):
    handle_class.get_engine_info = _get_engine_info
