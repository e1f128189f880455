"""What requests need is compiled before a service is ready: after `warm` no request compiles or loads a kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

PROGRAM = """
import json, sys
from pathlib import Path
from streamsched import OutcomeBatch, SignalBatch, warm
from streamsched.frames import encode_frame
from streamsched.numerics import jit
from tests.integration.test_http_endpoints import CALLS, FRAMES, PAGE
from tests.support.http_service import NOW, URLS, outcome, running

def compiled():
    return {(one.py_func.__qualname__, str(arguments)) for one in jit._KERNELS for arguments in one.overloads}

failed = zip(URLS[5:], ["robots_denied", "not_attempted", 500, 304, 404, 410, 429, 503])
more = [
    ("POST", "/v1/outcomes", {"outcomes": [outcome(url, NOW - 50, status=one) for url, one in failed]}),
    ("POST", "/v1/outcomes", {"outcomes": [outcome(URLS[30], NOW - 50, fingerprint="00000000000000ff", etag="1")]}),
    ("POST", "/v1/outcomes", {"outcomes": [outcome(URLS[31], NOW - 50, changed=True, moved_to="https://m.example/")]}),
    ("POST", "/v1/outcomes", {"outcomes": [outcome(url, NOW - 40, changed=True) for url in URLS]}),
    *(("GET", f"/v1/explain?k=1&url={url}", None) for url in URLS),
    ("PUT", "/v1/rules", {"rules": {"*.example": {"in_flight": 9}, "https://h2.example/p*": {"max_revisit": "1d"}}}),
    ("GET", "/v1/hosts?order=failing", None),
    ("GET", "/v1/week?host=h1.example", None),
    ("GET", "/v1/week?region=CJK", None),
    ("PUT", "/v1/politeness", {"delay": "1s", "in_flight": 3, "per_batch": 2, "max_revisit": "30d"}),
    *(
        call
        for formula in ("freshness", "balanced(0.3)", "changes * significance", "posterior", "crawl_rate", "t * X")
        for call in (
            ("PUT", "/v1/champion", {"formula": formula}),
            ("POST", "/v1/next", {"k": 4}),
            ("GET", "/v1/rank", None),
            ("GET", f"/v1/explain?url={PAGE}", None),
        )
    ),
    ("POST", "/v1/forget", {"host": "h4.example"}),
]
frames = {
    "outcomes": OutcomeBatch(URLS, [NOW - 30.0] * len(URLS), changed=[True] * len(URLS), status=[200] * len(URLS)),
    "signals": SignalBatch(URLS, [NOW - 20.0] * len(URLS), ["sitemap"] * len(URLS)),
}
warm()
before, folder = compiled(), Path(sys.argv[1])
with running(folder, snapshots=str(folder / "copies")) as service:
    for method, path, body in CALLS[:6] + more + CALLS[6:]:
        answer = service.client.request(method, path, json=body)
        assert answer.status_code == 200, (path, answer.text)
    for name, frame in frames.items():
        answer = service.client.post(f"/v1/{name}", content=encode_frame(frame), headers=FRAMES)
        assert answer.status_code == 200, answer.text
print(json.dumps(sorted({name for name, _ in compiled() - before})))
"""


def test_no_request_compiles(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == []
