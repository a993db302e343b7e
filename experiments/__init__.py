"""Experiments on real trials, kept as JSON lines and rendered: ``python -m experiments NAME``."""
