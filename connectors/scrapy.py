"""A re-crawling Scrapy: an add-on that visits what the service leases (docs/scrapy.md). Extra ``[scrapy]``.

::

    ADDONS = {"streamsched.connectors.scrapy.StreamschedAddon": 500}
    STREAMSCHED_URL = "http://127.0.0.1:8080"
"""

from importlib import import_module
from typing import Final

from streamsched.errors import NOTHING, SettingsError

try:
    import_module("scrapy")
except ImportError as error:
    raise SettingsError("scrapy", NOTHING, "an installed package: pip install 'streamsched[scrapy]'") from error

from scrapy.settings import BaseSettings

from streamsched.connectors.crawlers.scrapy_middleware import OutcomeMiddleware
from streamsched.connectors.crawlers.scrapy_scheduler import StreamschedScheduler
from streamsched.connectors.crawlers.scrapy_settings import read_settings

__all__ = ["OutcomeMiddleware", "StreamschedAddon", "StreamschedScheduler"]

_OUTSIDE: Final = 10  # of the downloader middlewares: Scrapy's outermost, that of hosts, has 50


class StreamschedAddon:
    """Turns a crawler into one that revisits pages: its scheduler and a downloader middleware.

    ``ADDONS = {"streamsched.connectors.scrapy.StreamschedAddon": 500}``, and ``STREAMSCHED_URL`` or
    ``STREAMSCHED_STATE``. Raises SettingsError for a wrong setting, before the crawl begins.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Add what the add-on consists of."""
        read_settings(settings)
        settings.set("SCHEDULER", StreamschedScheduler, "addon")
        settings.setdefault_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", OutcomeMiddleware, _OUTSIDE)
