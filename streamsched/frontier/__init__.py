"""The url-frontier API over gRPC, beside HTTP: connections, the messages of its protocol, and its calls."""
