"""Sums as engines take them, in NumPy, and what is made of them: honest ways, in every order."""

from __future__ import annotations

import numpy as np

F = np.float32


def one_by_one(terms):
    """[terms, results] → [results], each addition rounded."""
    total = np.zeros(terms.shape[1:], F)
    for row in terms:
        total = total + row.astype(F)
    return total


def from_the_end(terms):
    return one_by_one(terms[::-1])


def in_blocks(terms, size=32):
    parts = [one_by_one(terms[i : i + size]) for i in range(0, len(terms), size)]
    return one_by_one(np.stack(parts))


def in_lanes(terms, lanes=8):
    """As vector units do: lane i adds every eighth term."""
    whole = len(terms) // lanes * lanes
    folded = terms[:whole].reshape(-1, lanes, *terms.shape[1:])
    return one_by_one(np.concatenate([one_by_one(folded), terms[whole:].astype(F)]))


def pairwise(terms):
    terms = terms.astype(F)
    while len(terms) > 1:
        if len(terms) % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[:1])])
        terms = terms[::2] + terms[1::2]
    return terms[0]


def fused(terms):
    """Products keep all their places until they are added (`terms` are exact in float64)."""
    total = np.zeros(terms.shape[1:], F)
    for row in terms:
        total = (total.astype(np.float64) + row).astype(F)
    return total


def sorted_by_size(terms):
    return one_by_one(np.take_along_axis(terms, np.argsort(np.abs(terms), axis=0), axis=0))


SUMS = {
    "one by one": one_by_one,
    "from the end": from_the_end,
    "blocks of 32": in_blocks,
    "eight lanes": in_lanes,
    "pairwise": pairwise,
    "fused": fused,
    "sorted": sorted_by_size,
}


def cut_off(values):
    """Towards 0, to the 24 places of a float."""
    found = values.astype(F)
    over = np.abs(found.astype(np.float64)) > np.abs(values)
    return np.where(over, np.nextafter(found, F(0)), found)


def matrix_unit(terms, step=8):
    """Blocks of products added exactly, cut off with each block."""
    total = np.zeros(terms.shape[1:], F)
    for start in range(0, len(terms), step):
        total = cut_off(total.astype(np.float64) + terms[start : start + step].sum(axis=0))
    return total


def two_passes(x, add):
    """[count, rows] → mean and variance."""
    count = F(len(x))
    mean = add(x) / count
    return mean, add(((x - mean) * (x - mean)).astype(F)) / count


def one_pass(x, add):
    """E[x²] − E[x]²."""
    count = F(len(x))
    mean = add(x) / count
    return mean, np.maximum(add((x * x).astype(F)) / count - mean * mean, F(0))


def by_reciprocal(x, add):
    """Multiplied by a rounded 1/n."""
    part = F(1) / F(len(x))
    mean = add(x) * part
    return mean, add(((x - mean) * (x - mean)).astype(F)) * part


STATISTICS = {"two passes": two_passes, "one pass": one_pass, "reciprocal": by_reciprocal}
