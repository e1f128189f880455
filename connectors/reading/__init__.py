"""Bytes, lines and records of a source, and what is rejected of them."""
