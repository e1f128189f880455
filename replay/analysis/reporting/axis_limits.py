"""What a log's times, its length or its pages do not let an analysis show."""

from __future__ import annotations

from streamsched.replay.analysis.reporting.analysis_wording import join_names, spell_length, spell_nearer
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S, WEEK_S
from streamsched.replay.analysis.statistics.frequencies import shows

__all__ = ["spell_limits"]


def spell_limits(result: Analysis) -> list[str]:
    """Return what the log's times, its length or its pages do not let be shown, a sentence each."""
    said = []
    if result.exact and result.resolution_s >= HOUR_S:
        said.append(
            f"The log's times lie {spell_length(result.resolution_s)} apart or at multiples of it: nothing shorter can "
            "be seen, and every interval is a multiple of that."
        )
    elif not result.exact:
        said.append(
            f"Changes are known only from visits, about {spell_length(result.resolution_s)} apart: several between two "
            "visits count as one, and no interval is shorter."
        )
    asked_s = result.settings.near_s or DAY_S
    if not shows(result.step_s, asked_s):
        instead = "" if result.near is None else f" Those of about {spell_length(result.near.near_s)} are."
        said.append(
            f"Intervals of about {spell_length(asked_s)} are not set against the exponential: with "
            f"steps of {spell_length(result.step_s)} a histogram would show the steps.{instead}{spell_nearer(result)}"
        )
    said += _limit_week(result)
    kinds = result.kinds
    if kinds.untestable:
        said.append(f"The steps are too long to find {join_names(kinds.untestable)} pages.")
    if kinds.unclear:
        said.append(
            f"With such steps {join_names(kinds.unclear)} pages cannot be told from those that change more often."
        )
    return said


def _limit_week(result: Analysis) -> list[str]:
    said = []
    if not result.dated:
        said.append("The day on which this collection began is not published: hours and days of the week mean nothing.")
    elif result.week_detail == "none":
        said.append("Neither hours nor days of the week can be told from such times: that figure is left out.")
    elif result.week_detail == "days":
        said.append("Hours of the day cannot be told from such times: the week is shown by days.")
    if result.week_detail != "none" and result.span[1] - result.span[0] < WEEK_S:
        said.append("The span is shorter than a week: of the other days nothing is known.")
    elif result.week_detail != "none" and result.span[1] - result.span[0] < 4 * WEEK_S:
        said.append("The span is shorter than four weeks: one odd day shows in the week's shape.")
    return said
