"""Simulated crawl of a log: policies, simulator, metrics."""
