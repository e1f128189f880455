"""What a crawler reports of a page's content: its text without menus, an exact hash of it, and its SimHash.

    text = page_text(html, url)
    Outcome(url, now, content=content_hash(text), fingerprint=simhash(text))

It imports neither NumPy nor numba, so that a crawler can use it beside the client. `page_text` needs the extra
``[content]``, with ``by="trafilatura"`` the extra ``[trafilatura]``; the hashes need nothing.
"""

from streamsched.content.ignore_rules import IgnoreRules
from streamsched.content.page_text import PageText, page_text
from streamsched.content.text_hashes import content_hash, remove_noise, simhash

__all__ = ["IgnoreRules", "PageText", "content_hash", "page_text", "remove_noise", "simhash"]
