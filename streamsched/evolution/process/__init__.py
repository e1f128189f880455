"""Evolutions in a separate process: the job, the files it exchanges, the worker."""
