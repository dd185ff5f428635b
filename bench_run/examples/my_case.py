"""An operator of one's own: y = x·sigmoid(x)·w, as the gates of transformers have it.

bench-run my_case.py --a numpy --b kernel@my_case.py
"""

import numpy as np

INPUTS = {"x": ("rows", "cols"), "w": ("rows", "cols")}
OUTPUTS = {"y": ("rows", "cols")}
SHAPES = [{"rows": 128, "cols": 1024}]
DTYPES = ["float"]
WORK = {"flops": "5*rows*cols"}


def reference(x, w):  # in float64
    return x / (1 + np.exp(-x)) * w


def gate(x, w, y):  # the kernel; it may stand in a file of its own
    np.negative(x, out=y)
    np.exp(y, out=y)
    y += 1
    np.divide(x, y, out=y)
    y *= w
