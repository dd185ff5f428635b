"""The host's clock, taken before any engine is loaded: an engine that replaces functions of the
module `time` does not change what its iterations are timed by."""

from __future__ import annotations

from time import perf_counter_ns as read_clock

__all__ = ["read_clock"]
