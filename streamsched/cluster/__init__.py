"""Several machines: each partition of a topic is a shard, a durable scheduler whose log and images can move."""
