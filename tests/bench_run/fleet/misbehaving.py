"""Units whose messages come twice, or late."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from bench_run.fleet.unit import Unit

SILENT_S = 12.0
"""How long the silent one does not answer."""
FOLDER = "FLEET_TEST_FOLDER"


class RepeatingUnit(Unit):
    """Sends all its results again and again: it forgets nothing, and numbers everything anew."""

    def poll(self, received, block):
        news = super().poll(0, block)
        again = len(news.results)
        return replace(news, first=received, results=(*news.results, *news.results[:again]))


class SilentUnit(Unit):
    """The first to have a result falls silent for a while, and sends what it has afterwards."""

    def poll(self, received, block):
        news = super().poll(received, block)
        if news.results and self._is_first():
            time.sleep(SILENT_S)
        return news

    def _is_first(self):
        try:
            (Path(os.environ[FOLDER]) / "silent").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
