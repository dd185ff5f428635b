"""PyTorch, on the GPU if there is one: return the output, or write to a parameter of its name.

bench-run --op 'sdpa: b=2 h=8 s=512 d=64 dtype=half' --a torch --b kernel@in_torch.py
"""

import torch


def sdpa(q, k, v, *, attn_scale, causal):
    scores = q @ k.transpose(-2, -1) * attn_scale
    if causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.float().softmax(-1).to(v.dtype) @ v
