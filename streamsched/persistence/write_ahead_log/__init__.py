"""The write-ahead log: the calls since the last image, on disk before they are acknowledged."""
