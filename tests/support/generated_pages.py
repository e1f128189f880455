"""Generated pages and pairs of them: a second version with other noise, and a third with a small real change.

They are made up: what they show of false and missed changes is a check of the rules, not a measurement of the web.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TEXT: Final = (
    "river bank morning market price report council water energy software release version module function "
    "table figure winter harvest station bridge engine museum concert player season match budget minister "
    "climate carbon rocket orbit sensor battery vaccine hospital doctor trial court judge school teacher exam "
    "language poem novel editor kitchen recipe butter onion bread cheese wine valley mountain forest animal "
    "bird flight airport train ticket "
)
_WORDS: Final = _TEXT.split()
KINDS: Final = ("article", "product", "thread", "listing", "documentation", "broken")


@dataclass(frozen=True)
class Noise:
    """What differs at every visit though nothing has changed."""

    token: str
    minutes: int
    clock: str
    adverts: tuple[str, ...]
    menu: tuple[str, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> Noise:
        clock = f"2026-11-{rng.randint(10, 28)} {rng.randint(10, 23)}:{rng.randint(10, 59)}"
        adverts = tuple(_sentence(rng) for _ in range(4))
        return cls(f"{rng.getrandbits(128):032x}", rng.randint(2, 59), clock, adverts, tuple(rng.sample(_WORDS, 12)))

    @property
    def ago(self) -> str:
        return f"{self.minutes} minutes ago"


def _sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(8, 18))).capitalize() + "."


def make_page(kind: str, seed: int) -> Callable[[Noise, bool], str]:
    """A function of noise, and of whether the page has changed, that returns the page as HTML."""
    rng = random.Random(seed)
    title, new = _sentence(rng), _sentence(rng)
    parts = [" ".join(_sentence(rng) for _ in range(4)) for _ in range(12)]
    cells, price = [(rng.choice(_WORDS), rng.randint(3, 999)) for _ in range(20)], rng.randint(10, 900)

    def body(noise: Noise, changed: bool) -> str:
        if kind == "product":
            rows = "".join(f"<tr><td>{name}</td><td>{count}</td></tr>" for name, count in cells)
            return f"<div>${price - 5 * changed}.99</div><p>{parts[0]}</p><table>{rows}</table>"
        if kind == "thread":
            comments = parts + [new] * changed
            return "".join(f"<div><span>user{i}, {noise.ago}</span><p>{c}</p></div>" for i, c in enumerate(comments))
        if kind == "listing":
            return "<ul>" + "".join(f"<li>{p} <i>{noise.ago}</i></li>" for p in [new] * changed + parts) + "</ul>"
        if kind == "documentation":
            code = f"<pre><code>call(alpha={price + changed})\n</code></pre>"
            return code + "".join(f"<h2>{name}</h2><p>{p}</p>" for (name, _), p in zip(cells, parts, strict=False))
        written = [p + f" {new}" * (changed and i == 3) for i, p in enumerate(parts)]
        if kind == "broken":
            return "<p>" + "<p><div><b>".join(written) + "</table></i>"
        return f"<p>Updated {noise.ago}</p>" + "".join(f"<p>{p}</p>" for p in written)

    def version(noise: Noise, changed: bool) -> str:
        html = _frame(title, body(noise, changed), noise)
        return html.replace("</body></html>", "").replace("</li>", "") if kind == "broken" else html

    return version


def _frame(title: str, main: str, noise: Noise) -> str:
    menu = "".join(f'<li><a href="/{word}">{word}</a></li>' for word in noise.menu)
    adverts = "".join(f'<div class="ad"><a href="/ad?{noise.token}">{text}</a></div>' for text in noise.adverts)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="csrf" content="{noise.token}"><script>window.S={{"csrf":"{noise.token}"}};</script>'
        f"<style>.a{{color:red}}</style></head><body><header><nav><ul>{menu}</ul></nav><div>Now {noise.clock}</div>"
        f"</header><main><article><h1>{title}</h1>{main}</article></main><aside><h3>Related</h3>{adverts}</aside>"
        f'<form><input type="hidden" value="{noise.token}"></form><footer>Page served {noise.clock}.</footer>'
        "</body></html>"
    )
