"""A browser for tests of the console: Debian's Chromium, driven by playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")


def open_browser() -> Iterator[Browser]:
    """Yield a browser; skip the test where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is missing (Debian's package chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, address: str, **settings: Any) -> Iterator[Page]:
    """Yield the page at `address`; fail if it logs an error or asks another host. `settings`: of the context."""
    wanted: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}} | settings
    context = browser.new_context(**wanted)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if is_fault(message) else None)
    page.on("request", lambda request: None if request.url.startswith(address) else faults.append(request.url))
    page.set_default_timeout(15_000)
    page.goto(address)
    yield page
    context.close()
    assert faults == []


def is_fault(message: Any) -> bool:
    """Return whether the page is at fault: answers of 4xx and 5xx are logged as errors too, and tested elsewhere."""
    return message.type in {"error", "warning"} and "Failed to load resource" not in message.text
