"""Expected outputs of a run: who computes them, and where they are kept."""
