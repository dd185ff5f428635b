"""Levels in, events out: pure functions of arrays. `detect.detect` is the way in."""
