"""Which candidates may be the fastest: blocks, rules that drop, and when it is known."""
