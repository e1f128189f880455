"""Score functions: parse, print, simplify and evaluate formulas over terminals, protected, in float64."""

from streamsched.formula.bounds.compiler import BoundProgram
from streamsched.formula.evaluation.program import BLOCK, Arena, Program
from streamsched.formula.formula import Formula
from streamsched.formula.syntax.nodes import (
    MAX_DEPTH,
    MAX_SIZE,
    Binary,
    BinaryOp,
    Constant,
    Node,
    Terminal,
    Unary,
    UnaryOp,
)
from streamsched.formula.syntax.parser import MAX_LENGTH
from streamsched.formula.terminal_table import TERMINALS

__all__ = [
    "BLOCK",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "MAX_SIZE",
    "TERMINALS",
    "Arena",
    "Binary",
    "BinaryOp",
    "BoundProgram",
    "Constant",
    "Formula",
    "Node",
    "Program",
    "Terminal",
    "Unary",
    "UnaryOp",
]
