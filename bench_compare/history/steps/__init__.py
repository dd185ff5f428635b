"""Levels of an archive: noise, steps, slopes and what may be hidden; pure functions of arrays."""
