"""Simulated crawls that score formulas: classes of equal pages, trials, fitness."""
