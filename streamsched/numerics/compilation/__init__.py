"""How kernels are compiled: what is linked and optimised together, the cache on disk, and what users hear of it."""
