"""The end of the server: when connections may be closed."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from streamsched.http.server import _is_quiet


def test_requests_that_are_only_refused_do_not_prolong_a_stop() -> None:
    """Callers that ask again at once would keep a service from its end, and from its next start."""
    now_s = time.monotonic()
    app: Any = SimpleNamespace(under_way=0, quiet_since_s=now_s + 3_600.0)  # one is refused all the time
    assert not _is_quiet(app, now_s)
    assert _is_quiet(app, now_s - 60.0)
    app.under_way = 1
    assert not _is_quiet(app, now_s - 60.0)
    app.under_way, app.quiet_since_s = 0, now_s - 60.0
    assert _is_quiet(app, now_s)
