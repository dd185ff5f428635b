"""Every text of the page can be read: contrast of its colours, worked out from the style sheet."""

import re
from importlib.resources import files

import pytest

CSS = (files("bench_compare.report.html") / "assets" / "page.css").read_text("utf-8")
GROUNDS = ("ground", "panel")
TONES = ("fatal", "bad", "good", "odd", "open", "none")
TEXTS = ("ink", "soft", "link", *(f"tone-{tone}" for tone in TONES))
SIDES = ("side-base", "side-other")
LEAST_TEXT, LEAST_GRAPHICS = 4.5, 3.0
"""WCAG 2.2, success criteria 1.4.3 and 1.4.11."""
SCHEMES = {
    "light": r"^:root \{(.*?)\}",
    "dark by system": r"^@media \(prefers-color-scheme: dark\) \{ :root[^{]*\{(.*?)\}",
    "dark by choice": r'^:root\[data-theme="dark"\] \{(.*?)\}',
    "print": r"^@media print \{\s*:root[^{]*\{(.*?)\}",
}


def colors(scheme):
    block = re.search(SCHEMES[scheme], CSS, re.DOTALL | re.MULTILINE)[1]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def luminance(color):
    """Relative luminance of WCAG 2.2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_largest_contrast():
    assert 21 == round(contrast("#000000", "#ffffff"), 6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stand_out_from_what_they_stand_on(scheme):
    known = colors(scheme)
    found = {(t, g): contrast(known[t], known[g]) for t in TEXTS for g in GROUNDS}
    assert {} == {pair: round(ratio, 2) for pair, ratio in found.items() if ratio < LEAST_TEXT}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lines_of_both_sides_stand_out_from_the_ground(scheme):
    known = colors(scheme)
    assert all(contrast(known[side], known["ground"]) >= LEAST_GRAPHICS for side in SIDES)


def test_both_ways_to_dark_have_the_same_colours():
    assert colors("dark by system") == colors("dark by choice")


def test_paper_has_the_colours_of_the_light_scheme():
    assert colors("light") == colors("print")


def test_no_text_is_made_fainter_than_its_colour():
    faint = re.findall(r"^([^{}@]*)\{[^{}]*\bopacity: 0?\.\d+", CSS, re.MULTILINE)
    allowed = (
        *(".head::after", "button:disabled", ".bar-svg .middle", ".bar-svg .range"),
        *(".history .whiskers", ".history .sure"),
    )
    assert [] == [name for name in faint if not name.strip().startswith(allowed)]
