"""Genetic programming: genomes, operators, selection, the loop over generations."""
