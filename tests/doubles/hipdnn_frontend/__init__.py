"""A stand-in for hipDNN's Python module, for tests only: its documented surface over NumPy.

Refuses what the real module refuses and computes with `bench_run.reference`. The variable
``HIPDNN_DOUBLE_PROFILE`` chooses a release: ``old``, ``middle``, ``hard`` or ``newest``. What each
has, with which arguments, is its stub in `releases/`: a new release is a new stub.
``HIPDNN_DOUBLE_WITHOUT`` removes members (`surface.py`). Plugins are small JSON files that end in
``.so``; see `plugins.py`.
"""

from __future__ import annotations

import importlib
import os

from . import surface

PROFILES = ("old", "middle", "hard", "newest")
PROFILE = os.environ.get("HIPDNN_DOUBLE_PROFILE", "newest")
if PROFILE not in PROFILES:
    raise ImportError(f"HIPDNN_DOUBLE_PROFILE={PROFILE}: expected one of {PROFILES}")
if os.environ.get("HIPDNN_DOUBLE_IMPORT_ERROR"):
    raise ImportError("libhipdnn_backend.so: cannot open shared object file")

_implementations = {}
for _name in ("device", "errors", "graph", "knobs", "plugins", "tuning"):
    _module = importlib.import_module(f"{__name__}.{_name}")
    _implementations.update({k: v for k, v in vars(_module).items() if not k.startswith("_")})
globals().update(surface.build(PROFILE, _implementations))
__version__ = surface.behaviour["version"]
