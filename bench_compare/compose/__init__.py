"""Prediction of a whole pipeline from measured layers: pure functions of documents."""
