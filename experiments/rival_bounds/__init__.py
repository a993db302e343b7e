"""Bounds that the figures compare with: valid but wide, or from training rows, or not valid."""
