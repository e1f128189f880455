"""The formats of crawl outcomes: change logs, JSON Lines, msgpack, Microsoft's crawl history."""
