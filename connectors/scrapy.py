"""A re-crawling Scrapy: an add-on that visits what the service leases (docs/scrapy.md). Extra ``[scrapy]``.

::

    ADDONS = {"streamsched.connectors.scrapy.StreamschedAddon": 500}
    STREAMSCHED_URL = "http://127.0.0.1:8080"
"""

from streamsched.errors import NOTHING, SettingsError

try:
    import scrapy  # noqa: F401  only to see whether it is there
except ImportError as error:
    raise SettingsError("scrapy", NOTHING, "an installed package: pip install 'streamsched[scrapy]'") from error

from streamsched.connectors.crawlers.scrapy_addon import StreamschedAddon
from streamsched.connectors.crawlers.scrapy_middleware import OutcomeMiddleware
from streamsched.connectors.crawlers.scrapy_scheduler import StreamschedScheduler

__all__ = ["OutcomeMiddleware", "StreamschedAddon", "StreamschedScheduler"]
