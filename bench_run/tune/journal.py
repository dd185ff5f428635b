"""Journal of a tuning, a line for each fact, from which it resumes after a stop.

The first line describes the tuning. A line that is damaged or cut off ends the usable part: the
rest is measured again.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.codec import build, encode
from bench_schema.document import Case, Outcome
from bench_schema.places import content_kind

from bench_run.errors import StoppedError, UsageError
from bench_run.files import writing
from bench_run.tune.racing import BlockSample

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedWriter

SUFFIX = ".races"


def race_path(record: str) -> Path:
    """Return the path of a record's journal."""
    return Path(f"{record}{SUFFIX}")


def is_finished(record: str) -> bool:
    """Return True if the file has a record, and no journal is next to it."""
    return content_kind(record) == "a tuning record" and not race_path(record).exists()


def renewed(path: Path) -> Path:
    """Return the path of a new journal before it replaces the old one."""
    return path.with_name(f"{path.name}.new")


class TuneJournal:
    """Beside the record: ``tuned.json.races``."""

    def __init__(
        self, record: str, head: Mapping[str, Any], *, resume: bool, force: bool = False
    ) -> None:
        """`head` has to be the same where a journal is resumed; `force` begins anew. Raises
        `UsageError`."""
        self._path = race_path(record)
        self._known: dict[str, Any] = {}
        self._file: BufferedWriter | None = None
        self._lock, self._stopped = threading.Lock(), False
        plain = json.loads(json.dumps(head))
        if not (resume or force) and self._path.exists():
            raise UsageError(
                f"{self._path} holds an unfinished tuning: continue it with --resume, or replace "
                "it with --force"
            )
        lines: list[Any] = []
        if resume and self._path.exists():
            for line in self._path.read_bytes().splitlines():
                try:
                    lines.append(json.loads(line))
                except ValueError:  # as many whole lines as there are from the start
                    break
        if lines:
            before = lines[0].get("tuning", {})
            for name in sorted({*before, *plain}):
                if before.get(name) != plain.get(name):
                    raise UsageError(
                        f"--resume: the unfinished tuning has {name} {before.get(name)!r}, this "
                        f"one {plain.get(name)!r}: continue with the same options, or choose "
                        "another -o"
                    )
            self._known = {line["key"]: line["value"] for line in lines[1:]}
        with writing(self._path):
            # What is known is written anew, beside what it replaces: a full disk or a kill loses
            # none of it.
            fresh = renewed(self._path)
            try:
                self._file = fresh.open("wb")
                self._write({"tuning": plain})
                for key, value in self._known.items():
                    self._write({"key": key, "value": value})
                fresh.replace(self._path)
            except OSError:
                self.close(done=False)
                fresh.unlink(missing_ok=True)
                raise

    def recall_case(self, graph: str, option: str) -> Case | None:
        known = self._known.get(f"{graph} built {option}")
        return None if known is None else build(known, Case)

    def keep_case(self, graph: str, option: str, case: Case) -> None:
        self._keep(f"{graph} built {option}", json.loads(encode(case)))

    def recall_block(
        self, graph: str, block: int, keys: Mapping[int, str]
    ) -> tuple[dict[int, BlockSample], dict[int, Outcome]] | None:
        """Return the samples of a block, and the outcomes of candidates that failed; None if the
        journal does not hold a block of just these candidates."""
        known = self._known.get(f"{graph} block {block}")
        if known is None or sorted(known["of"]) != sorted(keys.values()):
            return None
        rows, failed = known["visits"], known["failed"]
        return (
            {index: BlockSample(*rows[key]) for index, key in keys.items() if key in rows},
            {index: Outcome(*failed[key]) for index, key in keys.items() if key in failed},
        )

    def keep_block(
        self,
        graph: str,
        block: int,
        keys: Mapping[int, str],
        measured: Mapping[int, BlockSample],
        failed: Mapping[int, Outcome],
    ) -> None:
        rows = {keys[i]: [v.log_time, v.deviation, v.cost] for i, v in measured.items()}
        ends = {keys[i]: [o.status, o.reason, o.phase] for i, o in failed.items() if i in keys}
        value = {"of": list(keys.values()), "visits": rows, "failed": ends}
        self._keep(f"{graph} block {block}", value)

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Stop the tuning: later attempts to add to the journal raise `StoppedError`."""
        with self._lock:
            self._stopped = True

    def _keep(self, key: str, value: Any) -> None:
        with self._lock, writing(self._path):
            if self._stopped:
                raise StoppedError
            self._write({"key": key, "value": value})

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def close(self, *, done: bool) -> None:
        """`done`: the record is written, and the journal is not needed any more."""
        if self._file is not None:
            with suppress(OSError):  # of a line that could not be written, as was said then
                self._file.close()
            self._file = None
        if done:
            self._path.unlink(missing_ok=True)
