"""A re-crawling Scrapy: an add-on that visits what the service leases (docs/scrapy.md). Extra ``[scrapy]``.

::

    ADDONS = {"streamsched.connectors.scrapy.StreamschedAddon": 500}
    STREAMSCHED_URL = "http://127.0.0.1:8080"
"""

from importlib import import_module

from streamsched.errors import NOTHING, SettingsError

try:
    import_module("scrapy")
except ImportError as error:
    raise SettingsError("scrapy", NOTHING, "an installed package: pip install 'streamsched[scrapy]'") from error

from streamsched.connectors.crawlers.scrapy_addon import StreamschedAddon
from streamsched.connectors.crawlers.scrapy_middleware import OutcomeMiddleware
from streamsched.connectors.crawlers.scrapy_scheduler import StreamschedScheduler

__all__ = ["OutcomeMiddleware", "StreamschedAddon", "StreamschedScheduler"]
