"""How often a page changes: published estimators, the Gamma posterior, its hierarchical prior, surges, change rules."""
