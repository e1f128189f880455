"""Crawlers that lease pages from the service over HTTP. They import neither the scheduler nor numba.

    async with AsyncClient("http://127.0.0.1:8080") as client:
        async for page in leased_pages(client):
            answer = await http.get(page.url)
            page.done(answer.status_code, answer.content, headers=answer.headers)

`outcomes_of` turns a visit of any crawler into its outcomes. The extras ``[client,content]`` have what this needs.
"""

from streamsched.connectors.crawlers.frontier import LeaseSettings
from streamsched.connectors.crawlers.leased_page import LeasedPage
from streamsched.connectors.crawlers.page_loop import LeasedPages, leased_pages
from streamsched.connectors.crawlers.visits import ContentRules, Visit, outcomes_of

__all__ = ["ContentRules", "LeaseSettings", "LeasedPage", "LeasedPages", "Visit", "leased_pages", "outcomes_of"]
