"""An evolution in a process of its own: the job, its files, the worker."""
