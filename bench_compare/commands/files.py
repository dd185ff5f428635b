"""Reports to files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.streams import pieces

from bench_compare.commands.outcome import CommandResult
from bench_compare.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_schema.places import Place
    from bench_schema.report.model import Report

    from bench_compare.model import Comparison, View


def write_reports(
    outputs: Mapping[str, str],
    report: Report,
    view: View,
    remarks: Sequence[str],
    *,
    quiet: bool,
    problems: Sequence[str] = (),
    comparison: Comparison | None = None,
) -> CommandResult:
    """Write every format asked for (its name and target); what goes to stdout is returned. A quiet
    command says its conclusion, and nothing else. `problems`: what the text says already, and
    another format does not show to a person."""
    from bench_compare.report import figures_of, render

    document = None
    for name, target in outputs.items():
        if name == "figures":
            made = [(Path(target, file), figure) for file, figure in figures_of(report)]
            make_folder(Path(target))
            for path, figure in made:
                write(path, figure)
            continue
        text = render(name, report, view)
        if target == "-":
            document = text
        else:
            write(Path(target), text)
    if document is not None:
        text, remarks = document, (*remarks, *problems)
    elif quiet:
        from bench_schema.report.text import conclusion_text

        text = conclusion_text(report.conclusion, view)
    else:
        text = render("text", report, view)
    return CommandResult(
        text,
        report.conclusion,
        remarks=() if quiet else tuple(remarks),
        is_document=document is not None,
        comparison=comparison,
    )


def check_reports(
    outputs: Mapping[str, str],
    documents: Iterable[tuple[str, str]],
    others: Iterable[Place] = (),
) -> None:
    """Raise `UnwritableError` if a report would replace an input of the command, another report, or
    measurements. `documents`: the words that name them, with their values: files, folders, globs;
    `others`: further inputs."""
    from bench_schema.places import Place, check_places, result_places

    read = (place for flag, pattern in documents for place in result_places(flag, pattern))
    reports = [Place(f"--{name}", path, is_report=True) for name, path in outputs.items()]
    check_places((*read, *others), reports)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None


def write(path: Path, text: str) -> None:
    """Write the whole text or nothing: a reader never sees half a report."""
    if path.exists() and not path.is_file():
        partial = path  # a device or a pipe
    else:
        partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(pieces(text))
        if partial is not path:
            partial.replace(path)
    except OSError as error:
        if partial is not path:
            partial.unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
