"""The long-running process behind ``streamsched run``: settings, ingest loop, evolution, published batches, log."""
