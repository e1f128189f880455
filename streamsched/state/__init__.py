"""One shard's state: the page table, all arrays of the state, ingest of outcomes, invariants, digest."""
