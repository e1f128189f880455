"""Synthetic change logs."""
