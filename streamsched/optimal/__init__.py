"""How often to visit each page: LambdaCrawl, MirrorSync and WebFountain's model, as solvers over arrays; and what a
visit is worth after noisy signals.
"""

from streamsched.optimal.cost_families import BinaryPoisson, CostFamily, CostLearner, LearnableFamily, SublinPoly
from streamsched.optimal.crawl_problem import CrawlRates, binary_cost, harmonic_cost
from streamsched.optimal.crawl_value import NoisyPages, crawl_value
from streamsched.optimal.lambda_crawl import approximate_crawl, binary_crawl, lambda_crawl
from streamsched.optimal.mirror_step import RateLimits, gradient_step, mirror_step
from streamsched.optimal.mirror_sync import (
    SyncRun,
    SyncSettings,
    async_mirror_sync,
    async_psgd,
    estimate_gradient,
    mirror_sync,
    optimal_sync_rates,
)
from streamsched.optimal.rate_learning import (
    LearnedCrawl,
    SimulatedPages,
    learn_and_crawl,
    learn_complete_rates,
    learn_rates,
)
from streamsched.optimal.webfountain import (
    BucketModel,
    CrawlPlan,
    NewPages,
    follow_plan,
    paper_model,
    strategy_weights,
    webfountain,
)

__all__ = [
    "BinaryPoisson",
    "BucketModel",
    "CostFamily",
    "CostLearner",
    "CrawlPlan",
    "CrawlRates",
    "LearnableFamily",
    "LearnedCrawl",
    "NewPages",
    "NoisyPages",
    "RateLimits",
    "SimulatedPages",
    "SublinPoly",
    "SyncRun",
    "SyncSettings",
    "approximate_crawl",
    "async_mirror_sync",
    "async_psgd",
    "binary_cost",
    "binary_crawl",
    "crawl_value",
    "estimate_gradient",
    "follow_plan",
    "gradient_step",
    "harmonic_cost",
    "lambda_crawl",
    "learn_and_crawl",
    "learn_complete_rates",
    "learn_rates",
    "mirror_step",
    "mirror_sync",
    "optimal_sync_rates",
    "paper_model",
    "strategy_weights",
    "webfountain",
]
