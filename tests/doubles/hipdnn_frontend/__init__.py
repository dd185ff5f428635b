"""A stand-in for hipDNN's Python module, for tests only: its documented surface over NumPy.

Refuses what the real module refuses and computes with `bench_run.reference`. The variable
``HIPDNN_DOUBLE_PROFILE`` chooses a release: ``old`` (numbered engines, soft choice only, former
JSON keys), ``telling`` (hashed ids, soft choice, tells which engine ran), ``middle`` (hard choice
without knobs, no events) or ``newest``. Plugins are small JSON files that end in ``.so``; see
`plugins.py`.
"""

from __future__ import annotations

import importlib
import os

from . import device, plugins

PROFILES = ("old", "telling", "middle", "newest")
PROFILE = os.environ.get("HIPDNN_DOUBLE_PROFILE", "newest")
if PROFILE not in PROFILES:
    raise ImportError(f"HIPDNN_DOUBLE_PROFILE={PROFILE}: expected one of {PROFILES}")
if os.environ.get("HIPDNN_DOUBLE_IMPORT_ERROR"):
    raise ImportError("libhipdnn_backend.so: cannot open shared object file")
OLD, NEWEST = PROFILE == "old", PROFILE == "newest"

__version__ = dict(zip(PROFILES, ("0.1.0", "0.4.0", "0.5.0", "1.2.0"), strict=True))[PROFILE]

from .device import DeviceBuffer, hip_device_synchronize  # noqa: E402,F401
from .enums import DataType, ErrorCode, HeuristicMode, PluginLoadingMode  # noqa: E402,F401
from .errors import Error  # noqa: E402,F401
from .plugins import Handle, create_handle, destroy_handle, set_engine_plugin_paths  # noqa: E402,F401

_graph = importlib.import_module(f"{__name__}.graph")
Graph = _graph.RELEASES[PROFILE]


def hip_get_device_count():
    """As HIP counts: those that the variable names, as long as they are there."""
    found = range(int(os.environ.get("HIPDNN_DOUBLE_DEVICES", "1")))
    named = os.environ.get("HIP_VISIBLE_DEVICES")
    return len(found if named is None else [n for n in named.split(",") if int(n) in found])


if not OLD:
    from .plugins import engine_id_to_name, get_loaded_engine_plugin_paths  # noqa: F401

    def hip_stream_synchronize(stream=0):
        device.expect_stream(stream)
        device.synchronize()


if NEWEST:
    from .device import HipEvent, HipStallGate  # noqa: F401
    from .knobs import IntConstraint, Knob, KnobSetting, KnobValueType  # noqa: F401

    plugins.with_engine_info(Handle)

    def hip_can_use_stream_wait_value():
        return not os.environ.get("HIPDNN_DOUBLE_NO_GATE")
