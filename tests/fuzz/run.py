"""The loop: targets take turns until the time is over."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.fuzz.targets import MEANT, TARGETS

TURN = 25
"""Inputs of a target before the next one's turn."""
SLOW_S = 20.0
"""An input that takes longer (of the processor, since others may use it) is a finding."""
MOST = 20
"""Findings after which it ends."""


@dataclass(frozen=True)
class Finding:
    title: str
    content: Any
    trace: str


def changed(name, seed, number):
    """Input `number` of a target."""
    target = TARGETS[name]
    draw = random.Random(f"{name} {seed} {number}")
    seeds = target.seeds()
    return target.mutate(draw, draw.choice(seeds), seeds)


def attempt(name, content):
    """The traceback of what is no error meant for the user, else None."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TARGETS[name].attempt(content, folder)
    except MEANT as error:
        if not str(error).strip() or "Traceback" in str(error):
            return f"an error that says nothing: {error!r}"
    except Exception:
        return traceback.format_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    taken = time.process_time() - begin
    return f"took {taken:.0f} s" if taken > SLOW_S else None


def fuzz(names, seed, seconds, only=None):
    """Inputs tried by target, and what was found."""
    end = time.monotonic() + seconds
    counts, findings = dict.fromkeys(names, 0), []
    for turn in count():
        for name in names:
            numbers = range(turn * TURN, (turn + 1) * TURN) if only is None else [only]
            for number in numbers:
                content = changed(name, seed, number)
                trace = attempt(name, content)
                counts[name] += 1
                if trace is not None:
                    findings.append(Finding(f"{name} {number}", content, trace))
                if time.monotonic() > end or len(findings) >= MOST:
                    return counts, findings
        if only is not None:
            return counts, findings
    return counts, findings
