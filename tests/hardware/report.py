"""Packs what the commands of the README printed and wrote into one file for an issue.

``python -m tests.hardware.report FOLDER``: after the tests, however they ended. Where none of them
ran, since no device was found, the doctor is asked why.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

from bench_schema.packing import zstd_module

REPORT = "hardware_report.tar.zst"
DOCUMENTS = ("*.json", "*.json.gz", "*.json.zst", "*.journal")
OUTCOMES = "pytest.xml"


def log_name(title):
    """Of the file with what a section's commands printed."""
    return "log_" + "".join(c if c.isalnum() else "_" for c in title.lower()) + ".txt"


def pack(folder, path):
    """Logs, outcomes of the tests and documents of `folder` as one archive; returns the names
    inside."""
    folder = Path(folder)
    patterns = ("log_*.txt", OUTCOMES, *DOCUMENTS)
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in files:
            archive.add(file, arcname=f"hardware_report/{file.name}")
    Path(path).write_bytes(zstd_module().compress(buffer.getvalue()))
    return [file.name for file in files]


def main(folder, path):
    """Asks the doctor where no command ran, and packs; prints where the report is."""
    from tests.hardware.commands import run, sections

    doctor = sections()[0]
    if not (Path(folder) / log_name(doctor.title)).exists():
        run(doctor, Path(folder))
    names = pack(folder, path)
    sys.stdout.write(f"For an issue: {path} ({len(names)} files)\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(__file__).resolve().parents[2] / REPORT)
