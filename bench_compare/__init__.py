"""bench-compare: holds result documents against each other, with statistics that can be trusted.

For scripts and notebooks::

    import bench_compare

    result = bench_compare.compare("before.json", "after.json", threshold="2%")
    result.word         # PASS, FAIL or UNDECIDED
    result.to_frame()   # a row a case, for pandas
    result              # in a notebook: the table
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs half of what --help takes
if TYPE_CHECKING:
    from typing import Any

    from bench_compare.notebook import compare

__all__ = ["compare"]


def __getattr__(name: str) -> Any:
    """Return the function of the package, loaded when it is first asked for: ``--help`` needs
    none."""
    if name == "compare":
        from bench_compare.notebook import compare

        return compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
