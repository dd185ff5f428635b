"""Colours and signs of pages and figures: a row each, for light and for dark."""

from __future__ import annotations

from typing import NamedTuple

COLORS: dict[str, tuple[str, str]] = {
    "ground": ("#fbfaf8", "#14171a"),
    "panel": ("#ffffff", "#1c2024"),
    "ink": ("#1c1f23", "#e7e6e2"),
    "soft": ("#5a616a", "#a5acb4"),
    "line": ("#dfe1e3", "#353b41"),
    "band": ("rgba(120,125,135,0.15)", "rgba(160,168,180,0.16)"),
    "link": ("#0b5394", "#8ec2f0"),
    "focus": ("#0072b2", "#56b4e9"),
    "fatal": ("#a1182b", "#ff8391"),
    "bad": ("#b34700", "#f59345"),
    "good": ("#00629d", "#5cb8ee"),
    "odd": ("#8a4d80", "#d79bcb"),
    "open": ("#60666c", "#9ea5ad"),
    "plain": ("#5a616b", "#a5acb5"),
    "base": ("#6b7280", "#a8b0bb"),
    "other": ("#007a63", "#2fc6a3"),
    "base-area": ("rgba(107,114,128,0.18)", "rgba(168,176,187,0.18)"),
    "other-area": ("rgba(0,122,99,0.18)", "rgba(47,198,163,0.18)"),
}
"""Name to its colour on light and on dark ground. Text has a contrast of at least 4.5 to 1."""

LIGHT = {name: light for name, (light, _) in COLORS.items()}
DARK = dict(COLORS.values())
"""Colour of a figure to the one in its place on dark ground."""


class Look(NamedTuple):
    sign: str
    """Sign in a text."""
    symbol: str
    """Symbol in a figure of plotly."""


LOOKS: dict[str, Look] = {
    "broken": Look("✕", "x"),
    "newly wrong": Look("≠", "cross"),
    "wrong": Look("≠", "cross"),
    "implausible": Look("≠", "cross"),
    "removed": Look("∅", "circle-x-open"),
    "newly unsupported": Look("⊘", "circle-x-open"),
    "lost": Look("−", "circle-x-open"),
    "incomparable": Look("?", "diamond-x-open"),
    "slower": Look("▲", "triangle-right"),
    "worse": Look("▲", "triangle-right"),
    "clock": Look("◆", "diamond"),
    "fixed": Look("✓", "star"),
    "faster": Look("▼", "triangle-left"),
    "better": Look("▼", "triangle-left"),
    "added": Look("+", "cross-open"),
    "unclear": Look("○", "circle-open"),
    "not measured": Look("·", "circle-open-dot"),
    "same": Look("●", "circle"),
    "completed": Look("●", "circle"),
    "unsupported": Look("⊘", "circle-x-open"),
    "failed": Look("✕", "x"),
    "crashed": Look("✕", "x"),
    "timed out": Look("✕", "x"),
}
"""Word of a state to its looks: a sign tells it, never colour alone."""
PLAIN = Look("·", "circle")


def style() -> str:
    """Return the colours as variables of CSS: by the reader's system, or by the reader's choice."""
    light, dark = (
        "".join(f"--{name}:{pair[at]};" for name, pair in COLORS.items()) + f"color-scheme:{word}"
        for at, word in enumerate(("light", "dark"))
    )
    return (
        f":root{{{light}}}\n"
        "@media screen and (prefers-color-scheme:dark)"
        f'{{:root:not([data-theme="light"]){{{dark}}}}}\n'
        f'@media screen{{:root[data-theme="dark"]{{{dark}}}}}\n'
    )
