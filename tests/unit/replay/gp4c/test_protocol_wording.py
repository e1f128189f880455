"""The verdict: what was found decides what is said, whichever way it falls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c import ProtocolResult
from streamsched.replay.gp4c.protocol_wording import (
    caution,
    describe_protocol,
    judge_claims,
    spell_difference,
    spell_new_pages,
    spell_published,
    spell_side,
    spell_sweep,
    spell_verdict,
)
from tests.support.gp4c_logs import flat, made_result

NAD = flat(0.5, 0.52, 0.48, 0.51, 0.49)
SWAY = flat(0.002, -0.002, 0.001, -0.001, 0.0)
WIDE = flat(0.05, -0.05, 0.05, -0.05, 0.0)


def standings(result: ProtocolResult) -> list[str | None]:
    return [claim.standing for claim in judge_claims(result) if claim.baseline == "nad"]


def test_the_paper_s_own_outcome_confirms_it() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.02 + SWAY / 4, GP4C_Basic=NAD + SWAY, posterior=NAD * 0.9)
    assert standings(result) == ["confirmed"] * 4
    verdict = spell_verdict(result)
    assert "The claim that GP4C_All beats NAD holds on this log: ChangeRate (+2.0 %, better), NDCG" in verdict
    assert "The claim that GP4C_Basic ties with NAD holds on this log: ChangeRate (+0.0 %, a tie), NDCG" in verdict
    assert "Against the posterior, which the paper did not have: GP4C_All in ChangeRate (+13.3 %, better)" in verdict


def test_a_tie_where_the_paper_won_and_a_loss_where_it_tied_refute_it() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD + SWAY, GP4C_Basic=NAD * 0.8, posterior=NAD * 1.2)
    assert standings(result) == ["refuted"] * 4
    verdict = spell_verdict(result)
    assert "The claim that GP4C_All beats NAD does not hold on this log: ChangeRate (+0.0 %, a tie)" in verdict
    assert "The claim that GP4C_Basic ties with NAD does not hold on this log: ChangeRate (-20.0 %, worse)" in verdict
    assert verdict.count("worse") == 6


def test_a_sure_gain_below_the_paper_s_is_smaller_and_still_a_tie() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.005, GP4C_Basic=NAD * 1.005)
    assert set(standings(result)) == {"smaller", "confirmed"}
    assert "GP4C_All beats NAD holds, by less than the paper's gain, on this log: ChangeRate (+0.5 %" in spell_verdict(
        result
    )
    assert "GP4C_Basic ties with NAD holds on this log: ChangeRate (+0.5 %, better)" in spell_verdict(result)


def test_a_sure_gain_like_the_paper_s_is_no_tie() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.2, GP4C_Basic=NAD * 1.03)
    found = {(claim.name, claim.standing) for claim in judge_claims(result) if claim.baseline == "nad"}
    assert found == {("GP4C_All", "confirmed"), ("GP4C_Basic", "refuted")}


def test_an_interval_with_room_for_either_leaves_it_undecided() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD + WIDE, GP4C_Basic=NAD + WIDE, posterior=NAD)
    assert standings(result) == ["undecided"] * 4
    assert spell_verdict(result).count("cannot be decided on this log") == 2


def test_methods_that_found_the_same_in_every_fold_leave_no_room_for_a_gain() -> None:
    """As where all are at the ceiling."""
    result = made_result(nad=NAD, GP4C_All=NAD, GP4C_Basic=NAD, posterior=NAD)
    found = {(claim.name, claim.standing) for claim in judge_claims(result) if claim.baseline == "nad"}
    assert found == {("GP4C_All", "refuted"), ("GP4C_Basic", "confirmed")}


def test_metrics_that_disagree_are_told_apart() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.1, GP4C_Basic=NAD)
    lost = tuple(
        replace(one, outcomes={how: replace(o, ndcg=NAD - 0.1) for how, o in one.outcomes.items()})
        for one in result.evolved
    )
    verdict = spell_verdict(replace(result, evolved=lost))
    assert (
        "GP4C_All beats NAD holds in ChangeRate (+10.0 %, better), and does not hold in NDCG (-20.0 %, worse)."
        in verdict
    )


def test_without_the_paper_s_terminals_there_is_no_verdict() -> None:
    assert spell_verdict(replace(made_result(), evolved=())).startswith("The paper's claim was not put to the test")


def test_where_nad_finds_nothing_there_is_nothing_to_compare_with() -> None:
    result = made_result(nad=flat(0.0), GP4C_All=flat(0.1), posterior=flat(0.0))
    claims = judge_claims(result)
    assert {spell_difference(claim.found) for claim in claims} == {"nothing to compare with"}
    assert {claim.standing for claim in claims} == {None}
    assert {spell_side(claim) for claim in claims} == {""}
    assert spell_verdict(result).startswith("The paper's claim was not put to the test")


def test_a_claim_shows_what_was_published() -> None:
    claims = judge_claims(made_result(nad=NAD))
    published = {(claim.name, claim.metric, claim.baseline): spell_published(claim) for claim in claims}
    assert published["GP4C_All", "change_rate", "nad"] == "+1.3 %"
    assert published["GP4C_All", "ndcg", "nad"] == "+1.8 %"
    assert published["GP4C_Basic", "ndcg", "nad"] == "a tie"
    assert published["GP4C_All", "ndcg", "posterior"] == "–"
    assert spell_difference(Estimate(0.1)) == "+10.0 %"


def test_the_top_of_the_list_is_compared_fold_by_fold() -> None:
    result = made_result()
    assert spell_sweep(result) == (
        "GP4C_All here, evolved for NDCG against evolved for ChangeRate, at 1 %: "
        "ChangeRate +0.0 % (+0.0 to +0.0), NDCG +0.0 % (+0.0 to +0.0)."
    )
    better = [
        replace(one, sweep={metric: folds * 1.5 for metric, folds in one.sweep.items()}) for one in result.evolved
    ]
    both = (*result.evolved[:2], *better[2:])
    assert "ChangeRate +50.0 % (+50.0 to +50.0)" in spell_sweep(replace(result, evolved=both))
    assert spell_sweep(replace(result, evolved=both[:2])) == ""


def test_new_pages_are_counted_from_the_second_cycle_on() -> None:
    result = made_result()
    one = result.evolved[0]
    outcomes = {how: replace(o, new_share=o.new_share + np.array([0.6, 0.1, 0.0])) for how, o in one.outcomes.items()}
    assert spell_new_pages(replace(result, evolved=(replace(one, outcomes=outcomes),))) == (
        "New pages here of GP4C_Basic, after the first ranked cycle: 45 % evolved for ChangeRate."
    )
    assert spell_new_pages(replace(result, evolved=())) == ""


def test_a_scaled_down_run_says_so() -> None:
    result = made_result()
    assert caution(result) == ""
    small = replace(result.settings, evolution=EvolutionSettings(population=10, generations=2, seeds=5))
    said = caution(replace(result, settings=small))
    assert said == (
        "Evolved at 10 × 2 × 5 (population × generations × seeds) where the paper has 300 × 50 × 5: a weaker search."
    )
    assert spell_verdict(replace(result, settings=small)).endswith(said)


def test_the_description_names_pages_spans_and_the_reading() -> None:
    said = describe_protocol(made_result())
    assert "20 pages" in said
    assert "2024-10-04 to 2024-10-19: 5 folds, 3 spans of 5; 1 visits a day of a test fold (0.05 of its pages)" in said
    assert "since the page's last visit" in said
    that_day = replace(made_result().settings, evolution=EvolutionSettings(reading="that_day"))
    assert "the paper's letter" in describe_protocol(replace(made_result(), settings=that_day))
