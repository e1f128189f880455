"""What a run reads: one stream of outcomes, perhaps one of signals beside it, the order of both, and how they end."""
