"""Toolkit of compiled kernels: array types, the compiler's decorators, growable arrays, packed URLs, vector math."""
