"""A crawler of ten lines on httpx, beside one that visits the oldest copies first."""
