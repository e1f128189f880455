"""A simulated crawl of a log: policies, simulator, metrics."""
