"""Packs what the commands of the README printed and wrote into one file for an issue."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import zstandard

REPORT = "hardware_report.tar.zst"
DOCUMENTS = ("*.json", "*.json.gz", "*.json.zst")


def log_name(title):
    """Of the file with what a section's commands printed."""
    return "log_" + "".join(c if c.isalnum() else "_" for c in title.lower()) + ".txt"


def pack(folder, path):
    """Logs and documents of `folder` as one archive; returns the names inside."""
    folder = Path(folder)
    patterns = ("log_*.txt", *DOCUMENTS)
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in files:
            archive.add(file, arcname=f"hardware_report/{file.name}")
    Path(path).write_bytes(zstandard.compress(buffer.getvalue()))
    return [file.name for file in files]
