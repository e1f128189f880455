"""State on disk: images of a shard taken while it goes on, a log of what was asked of it, and how both are read."""
