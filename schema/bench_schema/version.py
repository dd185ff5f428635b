"""The version of the package, which names its commit."""

from __future__ import annotations


def package_version() -> str:
    """Return the installed version; ``unknown`` if the code runs from a folder that was never
    installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dnn-bench")
    except PackageNotFoundError:
        return "unknown"
