"""How each operation of an op spec becomes nodes and tensors: a file for each family."""
