"""One shard's state: the page table, ingest of outcomes, invariants, digest."""
