"""Upper bounds of score formulas over intervals of their terminals."""
