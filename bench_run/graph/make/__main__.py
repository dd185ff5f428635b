"""``python -m bench_run.graph.make LIST FOLDER``: writes the graph files of a list of op specs."""

from __future__ import annotations

import sys
from pathlib import Path

from bench_run.graph.make.collection import write_collection

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_collection(Path(sys.argv[1]), Path(sys.argv[2]))
