"""Mutations that keep the structure of what they change, so that they get past the first check.

Every mutator takes a random generator and one or more seeds of its kind and returns a value of the
same kind. Equal generators give equal results.
"""

from __future__ import annotations

import copy
import re

HOSTILE_NUMBERS = (
    0,
    -1,
    1,
    2,
    3,
    7,
    2**31 - 1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**64,
    2**70,
)
HOSTILE_VALUES = (
    *HOSTILE_NUMBERS,
    0.5,
    -0.0,
    1e308,
    5e-324,
    None,
    True,
    False,
    "",
    "unset",
    "\x1b[2J",
    "a\nb",
    "\u202e",
    "x" * 300,
    [],
    {},
    [[]],
    [1],
    {"a": 1},
)
HOSTILE_WORDS = (
    "",
    "=",
    ":",
    ",",
    "x",
    "-",
    "--",
    "0",
    "-1",
    "1e9",
    "9" * 30,
    "nan",
    "inf",
    "\x00",
    "\x1b[0m",
    "é",
    "💥",
    "\\",
    "'",
    '"',
    "[",
    "]",
    "{",
    "}",
    "*",
    "1..9",
    "../..",
    "#",
    "\t",
    "\r\n",
)


def json_value(random, value, others=()):
    """One to four changes anywhere inside of a JSON value."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        value = _one_change(random, value, others)
    return value


def _one_change(random, value, others):
    places = list(_places(value))
    if not places:
        return copy.deepcopy(random.choice(HOSTILE_VALUES))
    holder, key = random.choice(places)
    change = random.choice((_replace, _replace, _nudge, _nudge, _remove, _repeat, _swap, _splice))
    change(random, holder, key, places, others)
    return value


def _places(value):
    """(container, key) of everything inside."""
    items = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        yield value, key
        yield from _places(item)


def _replace(random, holder, key, places, others):
    holder[key] = copy.deepcopy(random.choice(HOSTILE_VALUES))


def _nudge(random, holder, key, places, others):
    """Numbers stay near, words become words met elsewhere: what is wrong is then subtle."""
    old = holder[key]
    if isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int):
        holder[key] = random.choice((old + 1, old - 1, -old, old * 2, 0))
    elif isinstance(old, float):
        holder[key] = random.choice((old * 1.5, -old, 0.0))
    elif isinstance(old, str):
        words = [h[k] for h, k in places if isinstance(h[k], str)]
        holder[key] = random.choice(words)
    else:
        _replace(random, holder, key, places, others)


def _remove(random, holder, key, places, others):
    if isinstance(holder, dict):
        del holder[key]
    else:
        holder.pop(key)


def _repeat(random, holder, key, places, others):
    again = copy.deepcopy(holder[key])
    if isinstance(holder, list):
        holder.insert(random.randrange(len(holder) + 1), again)
    else:
        holder[random.choice((f"{key}_", key.upper(), "extra", "\x1b"))] = again


def _swap(random, holder, key, places, others):
    """With a copy of another part of the same value."""
    source, name = random.choice(places)
    holder[key] = copy.deepcopy(source[name])


def _splice(random, holder, key, places, others):
    """With a part of another seed, under the same key where there is one."""
    if not others:
        return
    there = list(_places(random.choice(others)))
    same = [place for place in there if place[1] == key] or there
    if same:
        source, name = random.choice(same)
        holder[key] = copy.deepcopy(source[name])


TOKEN = re.compile(r"\s+|\w+|[^\w\s]")


def text(random, value, others=()):
    """Tokens are dropped, doubled, swapped, replaced by hostile ones or by those of other seeds."""
    tokens = TOKEN.findall(value)
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randrange(len(tokens) + 1)
        foreign = TOKEN.findall(random.choice(others)) if others else tokens
        change = random.randrange(5)
        if change == 0:
            tokens.insert(place, random.choice(HOSTILE_WORDS))
        elif not tokens:
            continue
        elif change == 1:
            tokens.pop(place % len(tokens))
        elif change == 2:
            tokens[place % len(tokens)] = random.choice(foreign or [""])
        elif change == 3:
            tokens.insert(place, random.choice(tokens))
        else:
            tokens[place % len(tokens)] = str(random.choice(HOSTILE_NUMBERS))
    return "".join(tokens)


def data(random, value, others=()):
    """Bytes are flipped, cut off, doubled, moved, or spliced from another seed."""
    value = bytearray(value)
    for _ in range(random.choice((1, 1, 2, 8))):
        if not value:
            break
        start = random.randrange(len(value))
        length = random.choice((1, 1, 4, 64, 512))
        change = random.randrange(6)
        if change == 0:
            value[start] ^= 1 << random.randrange(8)
        elif change == 1:
            del value[start:]
        elif change == 2:
            del value[start : start + length]
        elif change == 3:
            value[start:start] = value[start : start + length]
        elif change == 4:
            value[start : start + length] = bytes(random.choices((0, 255, 127), k=length))
        elif others:
            other = random.choice(others)
            there = random.randrange(len(other) or 1)
            value[start : start + length] = other[there : there + length]
    return bytes(value)


def lines(random, value, others=()):
    """Whole lines are dropped, doubled, moved, cut or changed inside."""
    rows = value.splitlines(keepends=True)
    place = random.randrange(len(rows)) if rows else 0
    change = random.randrange(5)
    if not rows or change == 0:
        return data(random, value, others)
    if change == 1:
        del rows[place]
    elif change == 2:
        rows.insert(random.randrange(len(rows) + 1), rows[place])
    elif change == 3:
        rows.append(rows.pop(place))
    else:
        rows[place] = data(random, rows[place], others)
    return b"".join(rows)
