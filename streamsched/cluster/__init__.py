"""A cluster: shards on several machines that answer as one service."""
