"""Documents that announce changes, sitemaps, feeds and IndexNow notices, read into change signals.

::

    memory = DocumentMemory()
    reading = read_document(body, url="https://a.example/sitemap.xml", read_at=now, memory=memory)
    scheduler.notice(reading.signals)

The document's bytes come from the caller: nothing here fetches anything.
"""

from streamsched.connectors.signals.document_memory import DocumentMemory
from streamsched.connectors.signals.document_reader import MAX_DOCUMENT_BYTES, Reading, read_document
from streamsched.connectors.signals.entry_columns import EntryScope

__all__ = ["MAX_DOCUMENT_BYTES", "DocumentMemory", "EntryScope", "Reading", "read_document"]
