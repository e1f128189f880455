"""The report of the suite of plain sites: a row for each site, and where the default is weakest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamsched.replay.plain_sites import SITES, SiteFigures, SuiteResult
from streamsched.replay.reporting.number_format import format_count, format_number
from streamsched.replay.reporting.report import Cell, Column, Report, Section, Table, Text, pick, tabulate

RATIOS: Final[dict[str, Callable[[SiteFigures], float]]] = {
    "ChangeRate of default over the best of posterior, age and known prior": lambda site: site.found,
    "Freshness of freshness over age": lambda site: site.against_age,
    "Freshness of freshness over known rates": lambda site: site.against_known,
}
"""What is compared on each site, and how."""
_REMARKS: Final = (
    "Budget: pages visited a day. Changes: of a page between two visits, on average, if all were visited alike. Known "
    "prior: a crawl that knows the distribution of the rates and learns each page's by Bayes. Known rates: one that "
    "knows each page's rate, as if its changes were Poisson. The best of three is above each of them by chance too: at "
    "0.5 % a day a ChangeRate of 0.1 is of some 120 changes a seed, and 9 % of it are chance."
)


def report_plain_sites(result: SuiteResult) -> Report:
    """Return the report of the suite."""
    settings = result.settings
    scope = (
        f"{len(result.sites)} sites of {format_count(settings.pages, 'page')}, {settings.days} days, measured from day "
        f"{settings.learned} on, {format_count(len(settings.seeds), 'seed')}."
    )
    weakest = [_weakest(result, name, ratio) for name, ratio in RATIOS.items()]
    kinds = tabulate(
        SITES, (Column("Site", "text"), lambda kind: kind.name), (Column("Pages", "text"), lambda kind: kind.doc)
    )
    return Report(
        title="Plain sites",
        lead="Policies on simulated sites, beside crawls that know the rates.",
        scope=scope,
        sections=[
            Section("", [Text(f"Plain sites. {scope}", "terminal")]),
            Section("Sites", [kinds], "Sites"),
            Section("Figures", [_tabulate(result)], "Figures"),
        ],
        content=_content(result),
        summary=[Text(sentence) for sentence in weakest],
    )


def _weakest(result: SuiteResult, name: str, ratio: Callable[[SiteFigures], float]) -> str:
    site = result.weakest(ratio)
    return f"{name}: {format_number(ratio(site))} at the least, on {site.cell}."


def _tabulate(result: SuiteResult) -> Table:
    def show(policy: str, figures: str) -> Callable[[SiteFigures], str]:
        return lambda site: format_number(getattr(site, figures)[policy])

    def compare(place: int) -> Callable[[SiteFigures], Cell]:
        ratio = list(RATIOS.values())[place]
        least = result.weakest(ratio)
        return lambda site: Cell(format_number(ratio(site)), mark="worse" if site is least else "")

    return tabulate(
        result.sites,
        (Column("Site", "text"), lambda site: site.cell.site.name),
        ("Budget", lambda site: f"{100 * site.cell.budget:g} %"),
        ("Changes", lambda site: f"{site.cell.changes:g}"),
        ("ChangeRate\ndefault", show("default", "change_rate")),
        ("\nposterior", show("posterior", "change_rate")),
        ("\nage", show("age", "change_rate")),
        ("known\nprior", show("known prior", "change_rate")),
        ("default /\nbest", compare(0)),
        ("Freshness\nfreshness", show("freshness", "freshness")),
        ("\nage", show("age", "freshness")),
        ("known\nrates", show("known rates", "freshness")),
        ("freshness\n/ age", compare(1)),
        ("freshness /\nknown", compare(2)),
        caption=_REMARKS,
        compact=True,
    )


def _content(result: SuiteResult) -> dict[str, Any]:
    return {
        "settings": pick(result.settings, "pages", "days", "learned", "seeds"),
        "sites": [
            {
                "site": site.cell.site.name,
                "budget": site.cell.budget,
                "changes": site.cell.changes,
                "change_rate": site.change_rate,
                "freshness": site.freshness,
                "found": site.found,
                "against_age": site.against_age,
                "against_known": site.against_known,
            }
            for site in result.sites
        ],
    }
