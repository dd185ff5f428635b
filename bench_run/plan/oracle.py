"""``--oracle``: beside each engine the same engine after its own search for the fastest way.

Both are engines of the run: interleaved round by round, validated alike, each with caches of its
own, so that the default does not read what the search left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.engines.base import SupportsOracle
from bench_run.engines.spec import KNOB, parse_spec, with_option
from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_run.engines.base import EngineSpec


def with_oracles(specs: Iterable[EngineSpec]) -> Iterator[EngineSpec]:
    """Each spec, and after it the one that searches."""
    for spec in specs:
        yield spec
        yield parse_spec(with_option(spec.text, _search(spec)))


def _search(spec: EngineSpec) -> str:
    module = engine_module(spec.name)
    if not isinstance(module, SupportsOracle):
        raise UsageError(f"--oracle: engine {spec.text} has no search to compare its default with")
    if spec.id is None:
        raise UsageError(f"--oracle: name the engine that searches: {spec.name}:ID or "
                         f"{spec.name}:all")  # fmt: skip
    if spec.id in module.SEARCHING_IDS:
        raise UsageError(f"--oracle: {spec.name}:{spec.id} searches in any case and has no default "
                         f"beside it: name the engine that searches: {spec.name}:ID or "
                         f"{spec.name}:all")  # fmt: skip
    return KNOB + module.ORACLE_KNOB


def oracle_pairs(keys: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Keys of the engines that belong together, default first."""
    searches = {
        f"+{KNOB}{module.ORACLE_KNOB}"
        for module in (engine_module(parse_spec(key).name) for key in keys)
        if isinstance(module, SupportsOracle)
    }
    return tuple(
        (key.replace(search, ""), key)
        for key in keys
        for search in searches
        if search in key and key.replace(search, "") in keys
    )
