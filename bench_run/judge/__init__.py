"""A judgement of kernels: correct, honest, and faster than a base by how much."""
