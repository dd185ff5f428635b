"""``python -m bench_compare``."""

from __future__ import annotations

from bench_compare.cli import entry

if __name__ == "__main__":
    entry()
