"""Signals in a replay: simulated sources, recorded signals, and what a policy learns of either."""
