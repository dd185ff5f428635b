"""Canonical colour refinement: the coarsest stable colouring of a labelled graph, and the names of
its colours, in O((n + m) log n) steps.

Two elements have one colour where nothing that can be walked to from them tells them apart: equal
descriptions and, by label, equally many neighbours of each colour (Weisfeiler and Leman, 1968). A
colour's name is a number that depends on the graph only, not on the order in which it is written.

Method: Berkholz, Bonsma and Grohe, Tight lower and upper bounds for the complexity of canonical
colour refinement, 2013, after Hopcroft's "process the smaller half". A colour at a time refines all
others by how its members are joined to theirs; of the parts that a colour falls into, the largest
keeps the name and need not be looked at again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Link = tuple[str, int]
"""Label, index of the neighbour."""
Row = tuple[str, int, tuple[tuple[str, int], ...]]
"""Of a colour: description and number of its members; label and colour of each one's neighbours."""
_Joints = tuple[str, ...]


def quotient(descriptions: Sequence[str], links: Sequence[Sequence[Link]]) -> tuple[Row, ...]:
    """The colours of the stable colouring in canonical order: equal for graphs that differ in the
    order of their elements only.

    `links` holds the neighbours of each element; for each link there is one back.
    """
    colours = _Colours(descriptions)
    while colours.waiting:
        colours.refine(links)
    return tuple(_row(members, descriptions, links, colours.of) for members in colours.members)


def _row(
    members: set[int],
    descriptions: Sequence[str],
    links: Sequence[Sequence[Link]],
    colour_of: Sequence[int],
) -> Row:
    one = next(iter(members))
    around = sorted((label, colour_of[other]) for label, other in links[one])
    return descriptions[one], len(members), tuple(around)


class _Colours:
    """A partition of the elements that grows finer."""

    def __init__(self, descriptions: Sequence[str]) -> None:
        names = {text: name for name, text in enumerate(sorted(set(descriptions)))}
        self.of = [names[text] for text in descriptions]
        self.members: list[set[int]] = [set() for _ in names]
        for element, colour in enumerate(self.of):
            self.members[colour].add(element)
        self.waiting = deque(range(len(names)))

    def refine(self, links: Sequence[Sequence[Link]]) -> None:
        """Tell all elements apart by how they are joined to the next waiting colour."""
        colour = self.waiting.popleft()
        joints: dict[int, list[str]] = {}
        for element in self.members[colour]:
            for label, other in links[element]:
                joints.setdefault(other, []).append(label)
        parts: dict[int, dict[_Joints, list[int]]] = {}
        for element, labels in joints.items():
            key = tuple(sorted(labels))
            parts.setdefault(self.of[element], {}).setdefault(key, []).append(element)
        for divided in sorted(parts):
            self._divide(divided, parts[divided])

    def _divide(self, colour: int, parts: dict[_Joints, list[int]]) -> None:
        """Elements of the colour that are in no part are not joined at all: one more part."""
        whole = self.members[colour]
        joined = sum(map(len, parts.values()))
        if joined == len(whole) and len(parts) == 1:
            return
        keys = sorted(parts)
        if joined < len(whole):
            keys = [(), *keys]
        sizes = {key: len(parts[key]) if key else len(whole) - joined for key in keys}
        keeper = max(keys, key=sizes.__getitem__)  # the first of equals
        for key in keys:
            if key != keeper:
                self._move(colour, parts[key] if key else self._rest(whole, parts))

    @staticmethod
    def _rest(whole: set[int], parts: dict[_Joints, list[int]]) -> list[int]:
        return list(whole.difference(*parts.values()))

    def _move(self, colour: int, elements: Iterable[int]) -> None:
        """To a new colour, which is looked at in its turn."""
        new = len(self.members)
        self.members.append(set(elements))
        self.members[colour] -= self.members[new]
        for element in self.members[new]:
            self.of[element] = new
        self.waiting.append(new)
