"""The commands of this folder's README, with what they should print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = Path(__file__).with_name("README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Section:
    """One heading: its commands, and what they must print."""

    title: str
    commands: str
    everywhere: tuple[str, ...]
    on_hardware: tuple[str, ...]

    def missing(self, output, *, hardware):
        wanted = (*self.everywhere, *(self.on_hardware if hardware else ()))
        text = re.sub(r"\s+", " ", output)
        return [
            line for line in wanted if not re.search(line, text) and not re.search(line, output)
        ]


def _blocks(text, language):
    found = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return tuple(line for block in found for line in block.splitlines() if line)


def sections():
    return [
        Section(
            part.splitlines()[0],
            "\n".join(_blocks(part, "sh")),
            _blocks(part, "expect"),
            _blocks(part, "hardware"),
        )
        for part in TEXT.split("\n## ")[1:]
    ]


def run(section, folder, **variables):
    """Types the section's commands in `folder`, which holds the graphs."""
    binaries = folder / "bin"
    if not binaries.exists():
        binaries.mkdir()
        (folder / "graphs").symlink_to(ROOT / "graphs")
        for name, module in (("bench-run", "bench_run"), ("bench-compare", "bench_compare")):
            script = binaries / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
            script.chmod(0o755)
    paths = [
        str(ROOT),
        str(ROOT / "schema"),
        variables.pop("PYTHONPATH", ""),
        os.environ.get("PYTHONPATH", ""),
    ]
    env = {
        **os.environ,
        **variables,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    return subprocess.run(
        ["sh", "-ec", section.commands],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
