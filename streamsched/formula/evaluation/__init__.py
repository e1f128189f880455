"""Score formulas as programs that kernels run over blocks of pages."""
