"""What a whole pipeline would take, from measured layers: pure functions, documents in."""
