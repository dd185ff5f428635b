"""The engines of a run: their keys, options and devices, before any of them is open.

Imports nothing that takes long: template processes are started from here before the rest of the
program is read (`runner/early.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.identity import without_device

from bench_run.engines import ENGINES, KERNEL, choose_auto, engine_module
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.spec import INTERPRETER, on_device, parse_spec, with_option
from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.options import Engines

NUMPY = "numpy"
EVERY = "all"
"""Id of an engine whose variants of a graph are a case each."""
BUILD_EVERY_S = 60.0
"""Build time limit of one variant of many, if ``--build-timeout`` is not given."""


@dataclass(frozen=True)
class PlannedEngine:
    """An engine of this run. `key` names it in the document."""

    key: str
    spec: EngineSpec
    options: EngineOptions
    reference: str
    """Reference for its outputs: ``auto``, ``numpy``, ``golden``, ``none``, or another engine's
    key."""
    build_timeout_s: float | None = None
    """Seconds that each build phase of a case may take; None: as long as the case."""

    @property
    def is_foreign(self) -> bool:
        """True if code from elsewhere runs in its process: a user's file, or a third party's
        engine."""
        return self.spec.name == KERNEL or self.spec.name not in ENGINES

    def is_copy_of(self, other: PlannedEngine) -> bool:
        """Return True if it is the other engine with a device added in its spec."""
        named = without_device(self.spec.text) == other.spec.text != self.spec.text
        return named and self.options == other.options


def engine_texts(chosen: Engines) -> tuple[tuple[str, ...], str | None]:
    """Return the specs of the user; if the choice is ours, also its reason. Raises
    `EngineUnavailableError`."""
    if chosen.a is not None and chosen.b is not None:
        sides = in_python(chosen.a, chosen.a_python), in_python(chosen.b, chosen.b_python)
        return sides, None
    if chosen.engine and chosen.engine != ("auto",):
        return chosen.engine, None
    text, reason = choose_auto()
    return (text,), reason


def engine_options(chosen: Engines) -> EngineOptions:
    return EngineOptions(
        device=0 if chosen.devices is None else chosen.devices[0],
        near_device=asks_several(chosen.devices) or bool(chosen.companions),
        threads=chosen.threads,
        hold_threads=chosen.hold_threads,
        math=chosen.math,
        cache=chosen.cache,
        timer=chosen.timer,
        replay=chosen.replay,
        knobs=dict(chosen.knobs),
        plugin_paths=chosen.plugin_path,
        plugin_mode=chosen.plugin_mode,
        prefix=chosen.hipdnn_prefix,
        vendor_caches=chosen.vendor_caches,
        cache_dir=chosen.cache_dir,
    )


def plan_engines(chosen: Engines, specs: Sequence[EngineSpec]) -> tuple[PlannedEngine, ...]:
    """Return one row per engine; with ``--a``/``--b`` the second is compared with the first, but
    with a kernel of a user each is held against the reference, and with ``none`` nothing is."""
    usual = engine_options(chosen)
    if chosen.knobs and not any(takes_knobs(spec) for spec in specs):
        names = ", ".join(spec.text for spec in specs)
        raise UsageError(f"--knob: no engine of this run has knobs ({names})")
    keys = unique([spec.text for spec in specs])
    references = [chosen.reference] * len(specs)
    apart = any(spec.name == KERNEL for spec in specs) or chosen.reference == "none"
    if chosen.a is not None and not apart:
        references = ["none" if chosen.reference == "auto" else chosen.reference, keys[0]]
    # One variant of many must not hold up the others; a single plan gets the case's time.
    limit_s = chosen.build_timeout_s
    each_s = BUILD_EVERY_S if limit_s is None else limit_s
    return tuple(
        PlannedEngine(
            key,
            spec,
            _in_own_math(of_spec(usual, spec), spec, reference),
            reference,
            each_s if spec.id == EVERY else limit_s,
        )
        for key, spec, reference in zip(keys, specs, references, strict=True)
    )


def in_python(spec: str, python: str | None) -> str:
    """Return the spec of the engine in the environment of this interpreter."""
    return spec if python is None else with_option(spec, f"{INTERPRETER}{python}")


def lists_variants(spec: EngineSpec) -> bool:
    """Return True if each variant of a graph is a case."""
    of_module = engine_module(spec.name).ABILITIES.lists_variants
    return spec.id == EVERY or (spec.id is None and of_module)


def has_arithmetic(spec: EngineSpec) -> bool:
    """Return True if ``--math`` means something to the engine: NumPy has one kind of arithmetic."""
    return spec.name != NUMPY


def _in_own_math(options: EngineOptions, spec: EngineSpec, reference: str) -> EngineOptions:
    """Return the options with the arithmetic that the engine computes in, unless outputs that it
    is held against may be in the requested one."""
    fixed = not has_arithmetic(spec) and reference in ("auto", "numpy", "none")
    return replace(options, math="fp32") if fixed else options


def takes_knobs(spec: EngineSpec) -> bool:
    return engine_module(spec.name).ABILITIES.knobs is not None


def of_spec(options: EngineOptions, spec: EngineSpec) -> EngineOptions:
    """Return the options with the device and the knobs that the spec names."""
    if spec.knobs and not takes_knobs(spec):
        raise UsageError(f"engine {spec.text}: {spec.name} has no knobs")
    device = options.device if spec.device is None else spec.device
    if spec.threads is not None:
        options = replace(options, threads=spec.threads, hold_threads=True)
    knobs = {**options.knobs, **spec.knobs}
    return replace(options, device=device, knobs=knobs, python=spec.python)


def computes_on_host(text: str) -> bool:
    """Return True for an engine that always runs on the processor."""
    spec = parse_spec(text)
    return spec.name == "numpy" or spec.id == "cpu"


def asks_several(devices: Sequence[int] | None) -> bool:
    """Return True if ``--device`` has several values: an engine then is one engine for each."""
    return devices is not None and len(devices) > 1


def on_devices(
    devices: Sequence[int],
    engines: Sequence[PlannedEngine],
    visible: Mapping[str, int | None],
) -> tuple[PlannedEngine, ...]:
    """Return each engine once for each device. `visible`: the number of devices that an engine can
    choose from, by key; None leaves it alone, as does a device in its spec."""
    for engine in engines:
        if engine.spec.device is not None and visible[engine.key] is None:
            raise UsageError(f"engine {engine.key}: it has no choice of devices")
    named = devices != (0,)
    if named and all(count is None for count in visible.values()):
        names = ", ".join(engine.key for engine in engines)
        wanted = ",".join(map(str, devices))
        raise UsageError(
            f"--device {wanted}: none of these engines has a choice of devices ({names})"
        )
    if not asks_several(devices):
        return tuple(engines)
    copies: list[PlannedEngine] = []
    for engine in engines:
        count = visible[engine.key]
        if count is None or engine.spec.device is not None:
            copies.append(engine)
            continue
        for spec in (on_device(engine.spec, index) for index in devices):
            own = of_spec(engine.options, spec)
            copies.append(replace(engine, key=spec.text, spec=spec, options=own))
    return tuple(copies)


def unique(names: Sequence[str]) -> list[str]:
    """Return the names; those that occur again get `` #2``, `` #3`` …"""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return unique
