"""What this release of hipDNN's bindings has: looked up once, by name, when the module is loaded.

Names move between releases, so nothing optional is used that is not in this record. A class that
the module does not export is not asked: its objects are read through `field`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REQUIRED: dict[str, tuple[str, ...]] = {
    "": ("Graph", "create_handle", "destroy_handle", "DeviceBuffer"),
    "Graph": (
        "from_json",
        "validate",
        "build_operation_graph",
        "create_execution_plans",
        "check_support",
        "build_plans",
        "get_workspace_size",
        "execute",
    ),
    "DeviceBuffer": ("ptr", "copy_from_host", "copy_to_host"),
}
"""What no run can do without, by class (``""`` is the module)."""

OPTIONAL: dict[str, tuple[str, ...]] = {
    "": (
        "DataType",
        "HeuristicMode",
        "PluginLoadingMode",
        "KnobSetting",
        "engine_id_to_name",
        "set_engine_plugin_paths",
        "get_loaded_engine_plugin_paths",
        "hip_get_device_count",
        "hip_stream_synchronize",
        "hip_device_synchronize",
        "hip_can_use_stream_wait_value",
        "HipEvent",
        "HipStallGate",
        "get_stream",
    ),
    "Graph": (
        "set_io_data_type",
        "set_intermediate_data_type",
        "set_compute_data_type",
        "set_preferred_engine_id_ext",
        "create_execution_plan_ext",
        "get_ranked_engine_ids",
        "get_execution_plan_engine_id",
        "get_knobs_for_engine",
        "get_plan_name",
        "execute_timed_ext",
        "autotune",
        "add_all_engines",
        "get_estimated_max_workspace_size",
    ),
    "Handle": ("get_stream", "set_stream", "get_engine_info", "get_loaded_engine_plugin_paths"),
    "DeviceBuffer": ("zeros",),
    "Error": ("is_good",),
    "HeuristicMode": ("FALLBACK",),
    "HipEvent": ("record", "elapsed_time"),
    "HipStallGate": ("arm", "release", "timed_out"),
}
"""What came or went between releases, and is done another way, or said to be missing."""


@dataclass(frozen=True)
class Abilities:
    """Dotted names of what is there and of what is not: ``Graph.get_plan_name``, ``HipEvent``."""

    present: frozenset[str]
    missing: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Whether all of them are there. A name that was never looked up is a mistake of ours."""
        for name in names:
            assert name in self.present or name in self.missing, name
        return self.present.issuperset(names)

    @property
    def words(self) -> dict[str, str]:
        """The record as the document and `doctor` show it."""
        names = sorted(self.present.union(self.missing))
        return {name: "yes" if name in self.present else "no" for name in names}

    @property
    def events(self) -> bool:
        return self.has("HipEvent", "HipEvent.record", "HipEvent.elapsed_time")

    @property
    def gate(self) -> bool:
        return self.has("HipStallGate", "HipStallGate.arm", "HipStallGate.release")

    @property
    def confirms_engine(self) -> bool:
        return self.has("Graph.get_execution_plan_engine_id")


def probe(module: Any) -> Abilities:
    """Looks every optional name up on the module and its classes; runs nothing."""
    present, missing = set(), []
    for owner, names in OPTIONAL.items():
        place = getattr(module, owner, None) if owner else module
        for name in names:
            whole = f"{owner}.{name}" if owner else name
            if place is not None and hasattr(place, name):
                present.add(whole)
            else:
                missing.append(whole)
    return Abilities(frozenset(present), tuple(missing))


def missing_required(module: Any) -> str | None:
    """The first name that no run can do without and that is not there."""
    for owner, names in REQUIRED.items():
        place = getattr(module, owner) if owner else module
        for name in names:
            if not hasattr(place, name):
                return f"{owner}.{name}" if owner else name
    return None


def member_of(value: Any, name: str, otherwise: Any = None) -> Any:
    """A field of one of hipDNN's values; `otherwise` where this release does not bind it, or binds
    it without its type, which then raises when it is read."""
    try:
        return getattr(value, name, otherwise)
    except Exception:  # foreign: an unbound type is a TypeError today
        return otherwise
