"""Compilation of kernels ahead of time, by small workloads."""
