"""The long-running process: its settings, what it takes outcomes from, what it tells while it does."""
