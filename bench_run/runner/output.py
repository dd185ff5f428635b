"""Output of a run: permission to write, its lock, and resuming."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.document import Settings
from bench_schema.files import read, save
from bench_schema.journal import Journal, journal_path, ordered, read_journal, seal
from bench_schema.merge import find_device, merge_cases, with_rates, with_shortfall
from bench_schema.packing import remove_unfinished
from bench_schema.places import refuse_replacing
from bench_schema.settings import rows_of

from bench_run.errors import OutputError, UsageError
from bench_run.files import LockFile, LockHeldError, writing
from bench_run.options import STDOUT, Options
from bench_run.runner.places import OWN_KIND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, Document

    from bench_run.plan.cases import PlannedCase


def check_destinations(options: Options) -> None:
    """Raise `OutputError`, which names the flag, the path and the obstacle."""
    for name, row in rows_of(Options).items():
        path = vars(options)[name]
        if path is None:
            continue
        problem = _too_long(path) if row.kind.startswith("output") else None
        if problem is None and row.kind == "output file" and path != STDOUT:
            file = Path(path)
            if file.is_dir():
                problem = "it is a directory"
            elif file.exists():
                problem = None if os.access(file, os.W_OK) else "permission denied"
            else:
                problem = _no_entry(file.parent)
        elif problem is None and row.kind == "output folder":
            folder = Path(path.removeprefix(OWN_KIND))
            while not folder.exists():  # it is made, with those above it
                folder = folder.parent
            problem = _no_entry(folder)
        if problem is not None:
            raise OutputError(f"{row.flag}: cannot write {path}: {problem}")


def _too_long(path: str) -> str | None:
    """Return the reason why no file can have this name; None if one can."""
    try:
        os.lstat(path)
    except OSError as error:
        return "the name is too long for a file" if error.errno == errno.ENAMETOOLONG else None
    return None


def _no_entry(directory: Path) -> str | None:
    """Return the reason why no file can be made in a directory; None if one can."""
    if not directory.exists():
        return f"there is no directory {directory}"
    if not directory.is_dir():
        return f"{directory} is not a directory"
    return None if os.access(directory, os.W_OK | os.X_OK) else f"{directory} is not writable"


# One run for each output: a lock beside it, held until its document is written.
#
# The lock belongs to the open file, so the system gives it back however a run ends; what a killed
# run leaves is an unlocked file, which the next one takes over.


def lock_path(output: Path) -> Path:
    """Return the path of an output's lock."""
    return output.with_name(f"{output.name}.lock")


class OutputLock(LockFile):
    """Refuses a second run for the same output. Raises `OutputError`."""

    def __init__(self, output: Path) -> None:
        try:
            super().__init__(lock_path(output))
        except LockHeldError as error:
            raise OutputError(
                f"{output}: another run writes to it ({str(error) or 'just started'}): "
                "wait until it has ended, or choose another output"
            ) from None
        except OSError as error:
            raise OutputError(f"cannot write {output}: {error.strerror}") from None


# Whether an unfinished run and the present one measure the same, as ``--resume`` requires.
#
# A case is its graph's meaning, its engine with everything that is known of it, its variant, and
# every setting that shapes a sample.

UNIT = ("device", "device_index")
"""Facts that say on which unit an engine ran: a shard may continue on another one, and each round
names its own."""

Difference = tuple[str, Any, Any]
"""Name, old value and new value of a difference."""


def refuse_other_work(earlier: Document, header: Document, cases: Sequence[PlannedCase]) -> None:
    """Raise `UsageError`, which names the first difference."""
    for name, before, now in differences(earlier, header, cases):
        which = "finished" if earlier.run.complete else "unfinished"
        raise UsageError(
            f"--resume: the {which} run has {name} {_text(before)}, this one {_text(now)}: "
            "continue with the same options, or choose another output"
        )


def differences(
    earlier: Document, header: Document, cases: Sequence[PlannedCase]
) -> Iterator[Difference]:
    before, now = (vars(document.run.settings) for document in (earlier, header))
    for name, row in rows_of(Settings).items():
        if row.resume == "same if known" and before[name] is None:
            continue
        if row.resume == "same on one host" and header.run.shard is not None:
            continue
        values = (row.absent if one[name] is None else one[name] for one in (before, now))
        yield from _changed(name, *values)
    yield from _changed("label", earlier.run.label, header.run.label)
    yield from _changed("tags", dict(earlier.run.tags), dict(header.run.tags))
    yield from _engines(earlier, header)
    yield from _changed("shard", earlier.run.shard, header.run.shard)
    environments = (dict(d.machine.environment) for d in (earlier, header))
    yield from _entries("environment", *environments)
    # Graphs with measured rounds; one that could not be read may have been repaired since.
    planned = {case.id: case for case in cases}
    for case in earlier.cases:
        if case.id in planned:
            graph = planned[case.id].graph.id
            what = f"case {case.id!r} with the fingerprint"
            yield from _changed(what, case.graph.fingerprint, graph.fingerprint)
            variant = dict(planned[case.id].variant)
            yield from _changed(f"case {case.id!r} with variant", dict(case.variant), variant)
        elif case.rounds:
            yield f"case {case.id!r} of graph", case.graph.path, "no such case"


def _engines(earlier: Document, header: Document) -> Iterator[Difference]:
    before, now = ({engine.key: engine for engine in d.engines} for d in (earlier, header))
    yield from _changed("engines", sorted(before), sorted(now))
    for key, engine in now.items():
        facts = asdict(before[key])
        for name, value in asdict(engine).items():
            unknown = name == "abilities" and facts[name] is None
            unknown = unknown or (name in UNIT and header.run.shard is not None)
            if not unknown and facts[name] != value:
                what = f"engine {key} with {name}"
                mappings = isinstance(value, dict) and isinstance(facts[name], dict)
                compare = _entries if mappings else _changed
                yield from compare(what, facts[name], value)


def _entries(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differing entries of two mappings."""
    for name in sorted({*before, *now}):
        yield from _changed(f"{what} {name}", before.get(name), now.get(name))


def _changed(name: str, before: object, now: object) -> Iterator[Difference]:
    if _plain(before) != _plain(now):
        yield name, before, now


def _plain(value: object) -> object:
    """Return the value as JSON would return it: tuples are lists."""
    return json.loads(json.dumps(value))


def _text(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


RESTORED = "the journal was changed by another process: it was written again, nothing is lost"
FINISHED = "the run is finished: nothing is measured, and the file stays as it is"


def now() -> str:
    """Return this instant, ISO 8601 with time zone."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def interrupted(output: str | None) -> str:
    """Return the message for Ctrl-C."""
    if output in (None, STDOUT):
        return "interrupted: this is what was measured; only a run with -o FILE can be continued"
    return "interrupted: finished rounds are saved; continue with --resume"


class Record:
    """Keeps what is measured: in the journal beside the output, or in memory without one."""

    def __init__(
        self,
        header: Document,
        output: Path | None = None,
        journal: Journal | None = None,
        lock: OutputLock | None = None,
    ) -> None:
        self._header = header
        self._output = output
        self._journal = journal
        self._lock = lock
        self._parts: list[Case] = []
        self.done: tuple[Case, ...] = ()
        self.notes: tuple[str, ...] = ()
        """Notes on the run that this one continues."""
        self.finished: Document | None = None
        """The whole document, where ``--resume`` finds nothing left to measure."""

    @classmethod
    def begin(
        cls,
        target: str | None,
        header: Document,
        cases: Sequence[PlannedCase],
        *,
        resume: bool,
        force: bool = False,
    ) -> Record:
        """Return a fresh record, or the one that ``--resume`` goes on with. `target`: the output
        file, which replaces a finished document only where `force` says so."""
        if target is None or target == STDOUT:
            return cls(header)
        output = Path(target)
        if output.is_dir():
            raise OutputError(f"cannot write {output}: it is a directory")
        with contextlib.ExitStack() as undo, writing(output):
            lock = OutputLock(output)
            undo.callback(lock.release)
            path = journal_path(output)
            for each in (output, path):
                remove_unfinished(each)
            refuse_replacing(
                target, force=force, resume=resume
            )  # no other process writes to it now
            unfinished, earlier = path.exists(), None
            if resume and unfinished:
                earlier = read_journal(path)
            elif resume and output.exists():
                earlier = read(output)
            if earlier is None:
                path.unlink(missing_ok=True)  # there only with --force
                record = cls(header, output, Journal.create(path, header), lock)
            elif not unfinished and earlier.run.complete:
                refuse_other_work(earlier, header, cases)
                record = cls(header, output, None, lock)
                record.finished = earlier
            else:  # sealed by an interrupted run, where there is no journal
                refuse_other_work(earlier, header, cases)
                journal = (
                    Journal.reopen(path)
                    if unfinished
                    else Journal.create(path, replace(earlier, cases=()), earlier.cases)
                )
                record = cls(header, output, journal, lock)
                record.done, record.notes = earlier.cases, earlier.run.notes
            undo.pop_all()  # from here on the record holds the lock
            return record

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def add(self, case: Case) -> None:
        """Keep one partial case, on disk before anything else is measured."""
        if self._journal is None or self._output is None:
            self._parts.append(case)
            return
        with writing(self._output):
            self._journal.append_case(case)

    def so_far(self, folder: Path) -> Path:
        """Return the results so far as a file: the journal, or a document in `folder`."""
        if self._output is not None:
            return journal_path(self._output)
        path = folder / "so_far.json"
        with writing(path):
            save(path, assemble(self._header, self._parts, complete=False))
        return path

    def finish(self, order: Sequence[str], *, complete: bool) -> Document:
        """Return the document, sealed in place of the journal if there is an output.

        `order` lists the ids of the cases as they were planned, not as they were run.
        """
        if self._output is None:
            document = assemble(self._header, self._parts, complete=complete)
            return replace(document, cases=ordered(document.cases, order))
        if not complete and self._output.exists() and read(self._output).run.complete:
            return self.measured(order)  # a part does not replace a whole: the journal stays
        with writing(self._output):
            notes = []
            if self._journal is not None:
                self._journal.restore()
                notes += [RESTORED] * self._journal.was_changed
            return seal(
                journal_path(self._output),
                self._output,
                finished=now(),
                complete=complete,
                order=order,
                notes=notes,
            )

    def measured(self, order: Sequence[str]) -> Document:
        """Return the document that the journal holds, for the case that the document itself could
        not be written."""
        assert self._output is not None
        document = read_journal(journal_path(self._output))
        return replace(document, cases=ordered(document.cases, order))


def assemble(header: Document, parts: Sequence[Case], *, complete: bool) -> Document:
    """Return the document of a run without a journal: partial cases merged by id."""
    by_id: dict[str, list[Case]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    devices = {e.key: find_device(header.machine, e.device) for e in header.engines}
    processors = {e.key: header.machine.cpu for e in header.engines if e.device == "cpu"}
    cases = (with_shortfall(merge_cases(g), header.run.settings) for g in by_id.values())
    return replace(
        header,
        run=replace(header.run, finished=now(), complete=complete),
        cases=tuple(
            with_rates(case, devices.get(case.engine), processors.get(case.engine))
            for case in cases
        ),
    )
