"""A process that reads one document after the other and saves what it remembers, until it is killed."""

from __future__ import annotations

from itertools import count
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from streamsched.connectors.signals import DocumentMemory, Reading, read_document
from streamsched.connectors.signals.document_memory import RememberedDocument
from tests.reference.document_changes import DatedEntry
from tests.support.signal_documents import HOST, sitemap

PAGES = 50
_PATIENCE_S = 60.0  # with a process that starts on a busy machine
_BALLAST = 200_000  # entries: a file of 5 MB, which is not written in one instant


def read_version(version: int, memory: DocumentMemory) -> Reading:
    """Read the document as of `version`: each version changes one page more."""
    entries = [DatedEntry(f"{HOST}/{i}", version - (version - i) % PAGES) for i in range(PAGES)]
    return read_document(sitemap(entries), url=f"{HOST}/sitemap.xml", read_at=float(version), memory=memory)


def kill_after(context: ForkServerContext, path: Path, first: int, seconds: float) -> None:
    """Read from version `first` on, saving to `path` after each; kill the process `seconds` after its first save."""
    saved = context.Event()
    process = context.Process(target=_read_on, args=(path, first, saved))
    process.start()
    assert saved.wait(_PATIENCE_S)
    process.join(seconds)
    process.kill()
    process.join()


def _read_on(path: Path, first: int, saved: Event) -> None:
    memory = DocumentMemory.load(path) if path.exists() else DocumentMemory()
    keys = np.arange(_BALLAST, dtype=np.uint64)
    for version in count(first):
        read_version(version, memory)
        memory.remember("ballast", RememberedDocument(version, keys, np.full(_BALLAST, float(version)), keys))
        memory.save(path)
        saved.set()
