"""The pure core: sides and a policy in, a `Comparison` out."""
