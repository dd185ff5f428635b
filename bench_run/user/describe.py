"""The process that reads a file of a user: ``python -m bench_run.user.describe FILE ITEMS OUT``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench_run.user.cases import describe

if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(describe(*sys.argv[1:3])), encoding="utf-8")
