"""WebFountain's model: how many old and new pages to crawl in each period, by buckets of like change rates."""

from streamsched.optimal.webfountain.bucket_model import BucketModel, CrawlPlan, follow_plan, strategy_weights
from streamsched.optimal.webfountain.ipopt_solver import webfountain
from streamsched.optimal.webfountain.paper_model import paper_model

__all__ = ["BucketModel", "CrawlPlan", "follow_plan", "paper_model", "strategy_weights", "webfountain"]
