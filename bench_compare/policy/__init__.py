"""What counts and what is allowed, from flags and files."""
