"""Reads a page as a browser does: its data, and what travels packed."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def packed(page, name):
    text = re.search(rf'id="{name}">(.*?)</script>', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


def panels(page):
    """Markup and figures of each panel, by its id."""
    data = data_of(page)
    names = re.findall(r'id="(block-\d+)"', page)
    found = [panel for name in names for panel in packed(page, name)]
    return dict(zip(data["panels"], found, strict=True))


def text_of(markup):
    """The texts of markup, one after the other."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def table(markup, title):
    """The rows of the first table after a title, by their heads."""
    after = markup.partition(f"<h3>{title}</h3>")[2].partition("</table>")[0]
    rows = [
        [
            html.unescape(re.sub(r"<[^>]+>", "", cell))
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row)
        ]
        for row in re.findall(r"<tr>.*?</tr>", after.partition("<tbody>")[2])
    ]
    return {row[0]: row[1:] for row in rows}


def whole(page):
    """All texts that a reader may see, those of packed parts too."""
    rows = [row[0] for rows in packed(page, "rows") for row in rows]
    markup = [one[0] for one in panels(page).values()]
    return text_of(" ".join([page, *rows, *markup]))
