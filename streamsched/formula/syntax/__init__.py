"""Score formulas as text and trees: lexer, parser, nodes, printer."""
