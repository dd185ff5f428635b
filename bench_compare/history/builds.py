"""Documents to builds, in order: by their start, by a tag, or by the history of a repository."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bench_compare.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bench_compare.history.digest import Digest

ORDERS = "started, commit, label or tag:KEY"
GIT_TIMEOUT_S = 60
LEAST_HASH = 7
"""Characters of a commit's hash that name it."""


@dataclass(frozen=True)
class Doc:
    """One document of the archive."""

    path: str
    held: Digest

    @property
    def moment(self) -> datetime:
        return moment_of(self.held.started)


@dataclass(frozen=True)
class Build:
    name: str
    """Name in reports and in an events file."""
    aliases: frozenset[str]
    started: str
    """Start of its first document."""
    documents: tuple[Doc, ...]
    """Documents by start time."""


def moment_of(text: str) -> datetime:
    """Return an instant in UTC; one without a time zone is UTC. Raises `ValueError`."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    try:
        return found.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(text) from None


def without_copies(docs: Iterable[Doc]) -> tuple[list[Doc], list[str]]:
    """Return each run once, from its fullest file, without runs that were merged into another one
    or have no date; and sentences on the files left out."""
    runs: dict[str, list[Doc]] = defaultdict(list)
    for doc in docs:
        runs[doc.held.run_id].append(doc)
    kept, remarks = [], []
    for copies in runs.values():
        copies.sort(key=lambda doc: (not doc.held.complete, -len(doc.held.cases), doc.path))
        kept.append(copies[0])
        remarks += [f"{doc.path}: the same run as {copies[0].path}" for doc in copies[1:]]
    whole = {part: doc for doc in kept for part in doc.held.parts}
    found = []
    for doc in kept:
        if doc.held.run_id in whole:
            remarks.append(f"{doc.path}: merged into {whole[doc.held.run_id].path}")
        elif not _is_dated(doc):
            remarks.append(f"{doc.path}: left out, its start is not a date: {doc.held.started!r}")
        else:
            found.append(doc)
    return found, sorted(remarks)


def _is_dated(doc: Doc) -> bool:
    try:
        return bool(doc.moment)
    except ValueError:
        return False


def builds_of(docs: Sequence[Doc], by: str, repo: Path | None) -> tuple[list[Build], list[str]]:
    """Return the builds in order, and sentences on documents that belong to none."""
    named, remarks = _named(docs, by)
    groups: dict[str, list[Doc]] = defaultdict(list)
    for name, doc in named:
        groups[name].append(doc)
    for members in groups.values():
        members.sort(key=lambda doc: (doc.moment, doc.held.run_id))
    order = sorted(groups, key=lambda name: (groups[name][0].moment, name))
    firsts = [groups[name][0].moment for name in order]
    times = Counter(firsts)
    many = sum(times[moment] > 1 for moment in firsts)
    if many:
        instant = f"{max(times, key=lambda one: times[one]):%Y-%m-%d %H:%M:%S}"
        remarks.append(
            f"{many} builds start at the same instant as another one ({instant}): their order is "
            "not known; is that clock right? --by commit --repo PATH orders them"
        )
    if repo is not None and by != "started":
        order, more = _in_history(order, repo)
        remarks += more
    names = _shown([groups[name][0] for name in order])
    builds = []
    for name, called in zip(order, names, strict=True):
        members, shown = groups[name], name
        if by == "started":
            shown = called
        elif by == "commit" and len(name) >= 12 and set(name) <= set("0123456789abcdef"):
            shown = name[:10]
        aliases = {
            name,
            shown,
            *(doc.held.run_id for doc in members),
            *(doc.path for doc in members),
        }
        aliases |= {doc.held.label for doc in members if doc.held.label is not None}
        builds.append(Build(shown, frozenset(aliases), members[0].held.started, tuple(members)))
    return _distinct(builds), remarks


def _shown(docs: Sequence[Doc]) -> list[str]:
    """Return names of builds that are documents: labels that tell them apart, otherwise days, or
    instants where days do not."""
    instants = [f"{doc.moment:%Y-%m-%d %H:%M:%S}" for doc in docs]
    days = [instant[:10] for instant in instants]
    times = days if len(set(days)) == len(days) else instants
    labels = Counter(doc.held.label for doc in docs)
    return [
        time
        if doc.held.label is None or len(docs) > 1 == len(labels)
        else doc.held.label
        if labels[doc.held.label] == 1
        else f"{doc.held.label} {time}"
        for doc, time in zip(docs, times, strict=True)
    ]


def _named(docs: Sequence[Doc], by: str) -> tuple[list[tuple[str, Doc]], list[str]]:
    """Return the documents, each as (name of its build, document), and remarks on those that are
    left out."""
    if by == "started":
        return [(doc.held.run_id, doc) for doc in docs], []
    key = by.removeprefix("tag:")
    if by not in ("commit", "label") and (not by.startswith("tag:") or not key):
        raise UsageError(f"--by: no order {by!r}; choose from {ORDERS}")
    named, remarks = [], []
    for doc in docs:
        name = doc.held.label if by == "label" else doc.held.tags.get(key)
        if name is None and by == "commit":
            name = doc.held.graphs_commit
        if name is None:
            remarks.append(f"{doc.path}: left out, it has no {by.replace(':', ' ')}")
        else:
            named.append((name, doc))
    if docs and not named:
        raise InputError(f"--by {by}: no document has one; choose from {ORDERS}")
    return named, remarks


def _distinct(builds: Sequence[Build]) -> list[Build]:
    """Return the builds, with numbers added to equal names."""
    times, seen = Counter(build.name for build in builds), Counter[str]()
    found = []
    for build in builds:
        seen[build.name] += 1
        name = f"{build.name} #{seen[build.name]}" if times[build.name] > 1 else build.name
        found.append(replace(build, name=name, aliases=build.aliases | {name}))
    return found


def _in_history(names: Sequence[str], repo: Path) -> tuple[list[str], list[str]]:
    """Return the names, sorted by the repository's commits, and remarks; an unknown name stays
    behind the one before which it started."""
    command = ["git", "-C", str(repo), "rev-list", "--all", "--topo-order", "--reverse"]
    try:
        done = subprocess.run(  # noqa: S603 - git, with words of our own
            command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--repo: {repo}: {error}") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["git failed"])[-1]
        raise InputError(f"--repo: {repo}: {why}")
    commits = done.stdout.split()
    # Of the commit with that hash, whole or shortened.
    place = {
        name: next((at for at, commit in enumerate(commits) if commit.startswith(name)), None)
        if len(name) >= LEAST_HASH
        else None
        for name in names
    }
    known = sorted((n for n in names if place[n] is not None), key=lambda n: place[n] or 0)
    order = list(known)
    for at, name in enumerate(names):
        if place[name] is None:
            before = next((n for n in reversed(names[:at]) if n in order), None)
            order.insert(0 if before is None else order.index(before) + 1, name)
    unknown = [name for name in names if place[name] is None]
    remarks = [f"{repo}: does not know {name}, which is placed by its start" for name in unknown]
    return order, remarks
