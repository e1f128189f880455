"""The report's look: one column on a phone, panels side by side on a desktop, light or dark as the system is."""

from __future__ import annotations

from typing import Final

from streamsched.replay.reporting.palette import HUES

__all__ = ["spell_stylesheet"]

_PAGE: Final = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:82rem;padding:1.25rem clamp(.8rem,3vw,2.5rem) 3rem;background:var(--page);color:var(--ink);
 font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1{font-size:clamp(1.4rem,4vw,1.9rem);line-height:1.2;margin:.3rem 0 .6rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem}
p{max-width:46rem;margin:.5rem 0}
.lead{font-size:1.1rem}
.quiet{color:var(--quiet);font-size:.9rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.35rem .8rem;text-align:right;border-bottom:1px solid var(--faint);font-weight:400;
 vertical-align:baseline}
thead th{vertical-align:bottom;font-size:.9rem;color:var(--quiet)}
th:first-child,td:first-child{text-align:left;padding-left:0;position:sticky;left:0;background:var(--page);
 white-space:normal;overflow-wrap:break-word;min-width:7.5rem;max-width:16rem}
tbody th{font-weight:600}
th.word,td.word{text-align:left}
td small,th small{color:var(--quiet);font-weight:400}
td small{margin-left:.3rem}
th small{display:block;font-size:.8rem}
td.formula{min-width:9rem;max-width:22rem;white-space:normal;overflow-wrap:anywhere;text-align:left;font-size:.85rem}
td.best{font-weight:700;background:var(--best)}
.keys{display:flex;flex-wrap:wrap;gap:.2rem .9rem;margin:.6rem 0;padding:0;border:0}
.keys legend{padding:0;color:var(--quiet);font-size:.9rem}
.keys label{display:inline-flex;align-items:center;gap:.35rem;cursor:pointer;font-size:.95rem}
.keys input{margin:0;accent-color:var(--quiet)}
.keys svg,tbody th svg{width:1.8rem;height:.7rem;flex:none}
tbody th svg{margin-right:.4rem}
.panels{display:grid;gap:1rem 1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr))}
.side{display:grid;gap:1rem 2rem;align-items:start;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
.side p{margin-top:1.5rem}
figure{margin:0}
figure svg{display:block;width:100%;max-width:38rem;height:auto}
.side svg{max-width:30rem}
figure svg *{stroke-linejoin:round;stroke-linecap:butt}
svg text{font-family:inherit}
@media (min-width:60rem){.keys{position:sticky;top:0;z-index:1;background:var(--page);padding:.3rem 0}}
@media (max-width:44rem){
 th,td{padding:.3rem .25rem;font-size:.86rem}
 thead th{font-size:.78rem;white-space:normal}
 th:first-child,td:first-child{min-width:4.5rem;max-width:8rem}
 td small{display:block;margin:0}
 tbody th small,tbody th svg{display:none}
}
@media print{.keys{position:static}}
"""
_TONES: Final = {  # name: light page, dark page
    "page": ("#ffffff", "#171715"),
    "quiet": ("#5b5b57", "#b3b2aa"),
    "faint": ("#cfcec8", "#4a4a46"),
    "heat": ("#2f7ad1", "#3f8ae6"),
    "best": ("#e3f1e9", "#1f3a2e"),
}


def spell_stylesheet(policies: int) -> str:
    """Return the report's CSS; the lines of a policy whose box is unticked vanish. O(policies)."""
    tones = {**_TONES, **HUES}
    light, dark = ("".join(f"--{name}:{tone[side]};" for name, tone in tones.items()) for side in (0, 1))
    hidden = ",".join(f"body:has(#show-{place}:not(:checked)) .p{place}" for place in range(policies))
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{_PAGE}{f'{hidden}{{display:none}}' if hidden else ''}\n"
    )
