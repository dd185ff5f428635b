"""Rotary position embedding: the halves of each head are rotated by an angle of its position.

Su, Lu, Pan, Murtadha, Wen and Liu, RoFormer, 2021, in the form that splits a head in two halves.
"""

import numpy as np

INPUTS = {"x": ("batch", "tokens", "heads", "size"), "angle": ("tokens", "size//2", "float")}
OUTPUTS = {"y": ("batch", "tokens", "heads", "size")}
SHAPES = [{"batch": 1, "tokens": 512, "heads": 8, "size": 64}]
DTYPES = ["float", "half"]
WORK = {"flops": "3*batch*tokens*heads*size"}


def reference(x, angle):
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def in_torch(x, angle):
    a, b = x.chunk(2, dim=-1)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    import torch

    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
