"""A stand-in for hipDNN's Python module, for tests only: its surface over NumPy.

Names, arguments, defaults and enumerators are those of upstream's binding sources (`surface.json`,
`surface.py`); what they do is in the modules beside it. Refuses what the real module refuses and
computes with `bench_run.reference`. The variable ``HIPDNN_DOUBLE_PROFILE`` chooses a state of the
bindings: ``sweep``, ``dlpack``, ``newest``, or ``attested`` (the newest with what upstream's tests
and documents use and no binding file shows). An older state has its names alone, to be refused.
Plugins are small JSON files that end in ``.so``; see `plugins.py`.
"""

from __future__ import annotations


def _build():
    import importlib
    import os

    if os.environ.get("HIPDNN_DOUBLE_IMPORT_ERROR"):
        raise ImportError("libhipdnn_backend.so: cannot open shared object file")
    parts = ("device", "errors", "graph", "knobs", "plugins", "tensor", "tuning")
    modules = [importlib.import_module(f"{__name__}.{name}") for name in parts]
    surface = importlib.import_module(f"{__name__}.surface")
    surface.build({k: v for module in modules for k, v in vars(module).items()})
    for name in [name for name in globals() if not name.startswith("_")]:
        del globals()[name]  # the modules: upstream's has none
    globals().update(surface.namespace)


_build()
__version__ = "1.2.0"
