"""Plans of how often to visit each page: the optimisers of `streamsched.optimal` beside a running scheduler."""
