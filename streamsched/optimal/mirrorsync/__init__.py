"""MirrorSync: sync rates learned from observed costs."""
