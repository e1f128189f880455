"""Benchmarks: one module for each group of figures in the README, each measured together with a rival."""
