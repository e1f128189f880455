"""What a client sends and reads, without a connection: calls, bodies, replies, and when to try again."""
