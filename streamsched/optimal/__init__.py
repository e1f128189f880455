"""How often to visit each page: LambdaCrawl, MirrorSync and WebFountain's model, as solvers over arrays."""

from streamsched.optimal.binary_crawl import binary_crawl
from streamsched.optimal.crawl_problem import CrawlRates
from streamsched.optimal.lambda_crawl import approximate_crawl, lambda_crawl
from streamsched.optimal.learn_and_crawl import LearnedCrawl, SimulatedPages, learn_and_crawl
from streamsched.optimal.policy_cost import binary_cost, harmonic_cost
from streamsched.optimal.rate_learning import learn_complete_rates, learn_rates

__all__ = ["CrawlRates", "approximate_crawl", "binary_cost", "binary_crawl", "harmonic_cost", "lambda_crawl"]
