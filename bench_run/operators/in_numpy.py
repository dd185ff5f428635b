"""Functions of the operators' formulas that NumPy lacks, in plain NumPy.

Arrays are float64 in the reference and float32 in the engine. Names and the order of arguments
follow PyTorch if it has the function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Dims = tuple[int, ...]

erf = np.vectorize(math.erf, otypes=[float])


def spread(x: Array, dims: Dims) -> Array:
    """Return x broadcast to `dims`."""
    return np.broadcast_to(x, dims).copy()


def sum_to(x: Array, like: Array) -> Array:
    """Return x summed over the axes along which `like` was broadcast."""
    lead = x.ndim - like.ndim
    axes = tuple(i for i in range(x.ndim) if i < lead or like.shape[i - lead] < x.shape[i])
    return x.sum(axes, keepdims=True).reshape(like.shape) if axes else x


def between(x: Array, scale: int, axis: int) -> Array:
    """Return x enlarged along an axis by linear interpolation between the centres of elements."""
    last = x.shape[axis] - 1
    place = np.clip((np.arange(scale * (last + 1)) + 0.5) / scale - 0.5, 0, last)
    low = np.floor(place).astype(int)
    share = np.expand_dims(place - low, tuple(range(1, x.ndim - axis))).astype(x.dtype)
    first, second = x.take(low, axis), x.take(np.minimum(low + 1, last), axis)
    return np.asarray(first + share * (second - first))


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def logsumexp(x: Array, axis: int, keepdims: bool) -> Array:
    top = x.max(axis, keepdims=True)
    found = top + np.log(np.exp(x - top).sum(axis, keepdims=True))
    return np.asarray(found if keepdims else found.squeeze(axis))


def topk(x: Array, k: int, axis: int) -> Array:
    """Return the k largest values, in descending order."""
    ordered = np.flip(np.sort(x, axis), axis)
    return np.take(ordered, np.arange(k), axis)


def one_hot(i: Array, classes: int) -> Array:
    return np.asarray(np.asarray(i)[..., None] == np.arange(classes), np.int64)


def scatter_rows(dy: Array, i: Array, n: int) -> Array:
    """Return zeros of n rows, to which row j of dy is added at row i[j]."""
    found = np.zeros((n, *dy.shape[1:]), dy.dtype)
    np.add.at(found, i, dy)
    return found


def scatter_columns(dy: Array, i: Array, dims: Dims) -> Array:
    """Return zeros in which each row has its value of dy at column i."""
    found = np.zeros(dims, dy.dtype)
    np.put_along_axis(found, i, dy, 1)
    return found


def set_rows(x: Array, b: Array) -> Array:
    """Return x with its first rows replaced by b."""
    return np.concatenate((b, x[len(b) :]))


def shares(mask: Array, axis: int | Dims) -> Array:
    """Return equal shares of 1 for the elements that are set."""
    return np.asarray(mask / mask.sum(axis, keepdims=True))


def padded(x: Array, rows: int, columns: int) -> Array:
    """Return x with zeros around it."""
    return np.pad(x, ((rows, rows), (columns, columns)))


def widths(given: Dims | None, dims: Dims) -> Dims:
    """Return the padding of each axis: 2 if it is not given."""
    return given or (2,) * len(dims)


def pad(x: Array, before: Dims, after: Dims, value: float) -> Array:
    return np.pad(x, list(zip(before, after, strict=True)), constant_values=value)


def parts(x: Array, axis: int, first: int) -> tuple[Array, ...]:
    """Return the first elements along an axis, and the others."""
    return tuple(np.split(x, [first], axis))


def halves(x: Array, axis: int) -> tuple[Array, ...]:
    return tuple(np.split(x, 2, axis))


def diagonal_of(x: Array) -> Array:
    return np.diagonal(x).copy()


def shape_of(x: Array) -> Array:
    return np.asarray(x.shape, np.int64)


def size_of(x: Array) -> Array:
    return np.asarray([x.size], np.int64)


def sequence_reverse(x: Array, lengths: Array, steps: Array, batch: Array) -> Array:
    """Return each sequence of x (t, n, c) with its first steps in reverse order."""
    last = lengths - 1 - steps[:, None]
    return np.asarray(x[np.where(last >= 0, last, steps[:, None]), batch])


def depth_to_space(x: Array, r: int, mode: str) -> Array:
    """Return x with blocks of r x r channels beside each other: channels before places (``crd``),
    or places before channels (``dcr``)."""
    n, c, h, w = x.shape
    if mode == "crd":
        parts = x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = x.reshape(n, r, r, c // (r * r), h, w).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // (r * r), h * r, w * r)


def space_to_depth(x: Array, r: int, mode: str) -> Array:
    """Return the inverse of `depth_to_space`."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // r, r, w // r, r)
    axes = (0, 1, 3, 5, 2, 4) if mode == "crd" else (0, 3, 5, 1, 2, 4)
    return parts.transpose(axes).reshape(n, c * r * r, h // r, w // r)


def multinomial(draw: np.random.Generator, x: Array, k: int) -> Array:
    """Return k classes for each row, by its weights: the inverse of the cumulative distribution."""
    ends = np.cumsum(x, 1)
    at = draw.random((len(x), k)) * ends[:, -1:]
    return np.stack([np.searchsorted(*row) for row in zip(ends, at, strict=True)])


def lrn(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    """Return x / (bias + alpha·mean of x² over neighbouring channels)^beta."""
    squares = np.pad(x * x, ((0, 0), (size // 2, (size - 1) // 2), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return np.asarray(x / (bias + alpha * sums / size) ** beta)


def reduced(x: Array, how: str) -> Array:
    """Return the mean of all losses, their sum, their sum by rows (``batchmean``), the mean of each
    row, or all of them (``none``)."""
    if how == "none":
        return x
    if how == "rows":
        return np.asarray(x.reshape(len(x), -1).mean(1))
    return np.asarray(x.mean() if how == "mean" else x.sum() / (1 if how == "sum" else len(x)))


def share(dy: Array, how: str, rows: int, columns: int = 1) -> Array:
    """Return the gradient of each loss under `reduced`, to be broadcast."""
    if how == "rows" and columns > 1:
        return dy[:, None] / columns
    return dy / {"mean": rows * columns, "batchmean": rows}.get(how, 1)


def cosine(a: Array, b: Array) -> Array:
    """Return the cosine of the angle between rows; the smallest squares are those of PyTorch."""
    least = 1e-12
    squares = ((a * a).sum(1) + least) * ((b * b).sum(1) + least)
    return np.asarray((a * b).sum(1) / np.sqrt(squares))


def sgd_momentum(w: Array, g: Array, m: Array, lr: float, wd: float, momentum: float) -> Any:
    m = momentum * m - lr * (g + wd * w)
    return w + m, m


def adam(
    w: Array, g: Array, m: Array, v: Array, lr: float, wd: float, b1: float, b2: float, eps: float
) -> Any:
    """Return one step without the correction of the first steps (Kingma and Ba, 2015)."""
    g = g + wd * w
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return w - lr * m / (v**0.5 + eps), m, v


def adagrad(w: Array, g: Array, v: Array, lr: float, wd: float, eps: float) -> Any:
    v = v + g * g
    return w - lr * (g / (v + eps) ** 0.5 + wd * w), v


def rmsprop(w: Array, g: Array, v: Array, lr: float, wd: float, decay: float, eps: float) -> Any:
    g = g + wd * w
    v = decay * v + (1 - decay) * g * g
    return w - lr * g / (v + eps) ** 0.5, v


# Recurrent layers. x: (t, n, i), state: (n, h), weights with the gates stacked: (gates·h, i or h).
# Each gradient goes back through the steps (Werbos, Backpropagation through time, 1990).


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def rnn(x: Array, s: Array, u: Array, w: Array, p: Array, q: Array) -> Array:
    found = []
    for step in x:
        s = np.tanh(step @ u.T + p + s @ w.T + q)
        found.append(s)
    return np.stack(found)


def rnn_grads(
    x: Array, s: Array, u: Array, w: Array, p: Array, q: Array, dy: Array
) -> tuple[Array, ...]:
    """Return gradients of x, u and w."""
    states = [s, *rnn(x, s, u, w, p, q)]
    dx, du, dw, ds = np.zeros_like(x), np.zeros_like(u), np.zeros_like(w), np.zeros_like(s)
    for t in reversed(range(len(x))):
        da = (dy[t] + ds) * (1 - states[t + 1] ** 2)
        dx[t], ds = da @ u, da @ w
        du += da.T @ x[t]
        dw += da.T @ states[t]
    return dx, du, dw


def _lstm_steps(
    x: Array, s: Array, m: Array, u: Array, w: Array, p: Array, q: Array
) -> tuple[list[Array], list[Array], list[list[Array]]]:
    states, cells, gates = [s], [m], []
    for step in x:
        i, f, g, o = np.split(step @ u.T + p + states[-1] @ w.T + q, 4, 1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        cells.append(f * cells[-1] + i * g)
        states.append(o * np.tanh(cells[-1]))
        gates.append([i, f, g, o])
    return states, cells, gates


def lstm(x: Array, s: Array, m: Array, u: Array, w: Array, p: Array, q: Array) -> Array:
    return np.stack(_lstm_steps(x, s, m, u, w, p, q)[0][1:])


def lstm_grads(
    x: Array, s: Array, m: Array, u: Array, w: Array, p: Array, q: Array, dy: Array
) -> tuple[Array, ...]:
    """Return gradients of x, u and w."""
    states, cells, gates = _lstm_steps(x, s, m, u, w, p, q)
    dx, du, dw = np.zeros_like(x), np.zeros_like(u), np.zeros_like(w)
    ds, dm = np.zeros_like(s), np.zeros_like(m)
    for t in reversed(range(len(x))):
        i, f, g, o = gates[t]
        ds, top = ds + dy[t], np.tanh(cells[t + 1])
        dm = dm + ds * o * (1 - top**2)
        parts = (
            dm * g * i * (1 - i),
            dm * cells[t] * f * (1 - f),
            dm * i * (1 - g**2),
            ds * top * o * (1 - o),
        )
        da = np.concatenate(parts, 1)
        dx[t], ds, dm = da @ u, da @ w, dm * f
        du += da.T @ x[t]
        dw += da.T @ states[t]
    return dx, du, dw


def _gru_step(
    step: Array, s: Array, u: Array, w: Array, p: Array, q: Array
) -> tuple[Array, Array, Array, Array]:
    """Return reset gate, update gate, new state and what the reset gate is multiplied with."""
    a, b = np.split(step @ u.T + p, 3, 1), np.split(s @ w.T + q, 3, 1)
    r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    return r, z, np.tanh(a[2] + r * b[2]), b[2]


def gru(x: Array, s: Array, u: Array, w: Array, p: Array, q: Array) -> Array:
    found = []
    for step in x:
        _, z, new, _ = _gru_step(step, s, u, w, p, q)
        s = (1 - z) * new + z * s
        found.append(s)
    return np.stack(found)


def gru_grads(
    x: Array, s: Array, u: Array, w: Array, p: Array, q: Array, dy: Array
) -> tuple[Array, ...]:
    """Return gradients of x, u and w."""
    states = [s, *gru(x, s, u, w, p, q)]
    dx, du, dw, ds = np.zeros_like(x), np.zeros_like(u), np.zeros_like(w), np.zeros_like(s)
    for t in reversed(range(len(x))):
        r, z, new, inner = _gru_step(x[t], states[t], u, w, p, q)
        ds = ds + dy[t]
        dn = ds * (1 - z) * (1 - new**2)
        dr, dz = dn * inner * r * (1 - r), ds * (states[t] - new) * z * (1 - z)
        da, db = np.concatenate((dr, dz, dn), 1), np.concatenate((dr, dz, dn * r), 1)
        dx[t], ds = da @ u, ds * z + db @ w
        du += da.T @ x[t]
        dw += db.T @ states[t]
    return dx, du, dw


def first_step(gradients: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return the gradients of a cell: those of a sequence of one step."""
    return gradients[0][0], *gradients[1:]


def ctc(x: Array, labels: Array) -> tuple[Array, Array]:
    """Return the negative log-likelihood of each sequence, and its gradient by x (t, n, c).

    Graves et al., Connectionist temporal classification, 2006: forward and backward variables over
    the labels with blanks (class 0) between them.
    """
    logs = x - logsumexp(x, 2, True)
    steps, batch = x.shape[:2]
    losses, gradient = np.zeros(batch, x.dtype), np.zeros_like(x)
    for n in range(batch):
        path = np.zeros(2 * labels.shape[1] + 1, np.int64)
        path[1::2] = labels[n]
        jumps = np.zeros(len(path), bool)
        jumps[3::2] = path[3::2] != path[1:-2:2]
        at = logs[:, n, path]
        before = _ctc_forward(at, jumps)
        back = np.zeros(len(path), bool)
        back[:-2] = jumps[2:]
        after = _ctc_forward(at[::-1, ::-1], back[::-1])[::-1, ::-1]
        total = np.logaddexp(before[-1, -1], before[-1, -2])
        losses[n] = -total
        share = np.exp(before + after - at - total)
        gradient[:, n] = np.exp(logs[:, n])
        for t in range(steps):
            np.subtract.at(gradient[t, n], path, share[t])
    return losses, gradient


def _ctc_forward(at: Array, jumps: Array) -> Array:
    """Return the log-likelihood of all beginnings that end in each place of the path."""
    found = np.full(at.shape, -np.inf, at.dtype)
    found[0, :2] = at[0, :2]
    for t in range(1, len(at)):
        last = found[t - 1]
        one = np.concatenate(([-np.inf], last[:-1]))
        two = np.where(jumps, np.concatenate(([-np.inf] * 2, last[:-2])), -np.inf)
        found[t] = at[t] + np.logaddexp(np.logaddexp(last, one), two)
    return found
