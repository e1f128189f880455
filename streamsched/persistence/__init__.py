"""Snapshots of a live shard, a write-ahead log of calls, and recovery from both."""
