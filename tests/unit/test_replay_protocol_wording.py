"""The verdict: what was found decides what is said, whichever way it falls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamsched.evolution.settings import EvolutionSettings
from streamsched.replay.intervals import Estimate
from streamsched.replay.protocol.wording import (
    Claim,
    caution,
    describe_protocol,
    judge_claims,
    spell_claim,
    spell_difference,
    spell_verdict,
)
from tests.protocols import flat, made_result

NAD = flat(0.5, 0.52, 0.48, 0.51, 0.49)
SWAY = flat(0.002, -0.002, 0.001, -0.001, 0.0)
WIDE = flat(0.05, -0.05, 0.05, -0.05, 0.0)


def test_the_paper_s_own_outcome_confirms_it() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.015 + SWAY / 4, GP4C_Basic=NAD + SWAY, posterior=NAD * 0.9)
    claims = judge_claims(result)
    assert [claim.standing for claim in claims if claim.baseline == "nad"] == ["confirmed"] * 4
    assert {claim.name: claim.published for claim in claims[:1]} == {"GP4C_All": 0.013}
    verdict = spell_verdict(result)
    assert "The claim that GP4C_All beats NAD holds here: +1.5 % (" in verdict
    assert "The claim that GP4C_Basic ties with NAD holds here: +0.0 % (" in verdict
    assert "Against the posterior, which the paper did not have: GP4C_All +12.8 %" in verdict


def test_a_tie_where_the_paper_won_does_not_confirm_it() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD + SWAY, GP4C_Basic=NAD * 0.8, posterior=NAD * 1.2)
    assert [claim.standing for claim in judge_claims(result) if claim.baseline == "nad"] == ["refuted"] * 4
    verdict = spell_verdict(result)
    assert "The claim that GP4C_All beats NAD does not hold here" in verdict
    assert "The claim that GP4C_Basic ties with NAD does not hold here: -20.0 %" in verdict
    assert verdict.count("no tie") == 2
    assert verdict.count("worse") == 4


def test_an_interval_with_room_for_either_leaves_it_open() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD + WIDE, GP4C_Basic=NAD + WIDE, posterior=NAD)
    assert [claim.standing for claim in judge_claims(result) if claim.baseline == "nad"] == ["open"] * 4
    verdict = spell_verdict(result)
    assert verdict.count("cannot be decided on this log") == 2
    assert verdict.count("an interval with room for no gain and for the paper's") == 2
    assert verdict.count("no difference told apart, but an interval with room for one") == 2


def test_half_a_claim_is_called_so() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.1, GP4C_Basic=NAD)
    lost = tuple(
        replace(one, outcomes={how: replace(o, ndcg=NAD - 0.1) for how, o in one.outcomes.items()})
        for one in result.evolved
    )
    verdict = spell_verdict(replace(result, evolved=lost))
    assert (
        "GP4C_All beats NAD fares differently in the two metrics here: +10.0 % (+9.6 to +10.4) in ChangeRate" in verdict
    )
    assert "in NDCG, less than the paper's gain" in verdict


def test_without_the_paper_s_terminals_there_is_no_verdict() -> None:
    result = made_result()
    assert spell_verdict(replace(result, evolved=())).startswith("The paper's claim was not put to the test")


def test_a_claim_says_what_was_found_and_what_was_published() -> None:
    better = Claim("GP4C_All", "change_rate", "nad", Estimate(0.02, 0.01, 0.03), 0.013)
    assert spell_claim(better).endswith("+2.0 % (+1.0 to +3.0), better; the paper has +1.3 %: confirmed.")
    tie = Claim("GP4C_Basic", "ndcg", "nad", Estimate(-0.02, -0.03, -0.01), 0.0)
    assert spell_claim(tie).endswith("-2.0 % (-3.0 to -1.0), worse; the paper has a tie: refuted.")
    ours = Claim("GP4C_All", "ndcg", "posterior", Estimate(-0.02, -0.03, 0.01), None)
    assert spell_claim(ours).endswith("(-3.0 to +1.0), a tie.")
    nothing = Claim("GP4C_All", "ndcg", "nad", Estimate(None), 0.013)
    assert spell_claim(nothing) == "GP4C_All against nad in NDCG: nothing to compare with."
    assert spell_difference(Estimate(0.1)) == "+10.0 %"


def test_a_scaled_down_run_says_it_is_no_proof() -> None:
    result = made_result()
    assert caution(result) == ""
    small = replace(result.settings, evolution=EvolutionSettings(population=10, generations=2, seeds=5))
    said = caution(replace(result, settings=small))
    assert said == (
        "Evolved at 10 × 2 × 5 (population × generations × seeds) where the paper has 300 × 50 × 5: "
        "no proof against it."
    )
    assert spell_verdict(replace(result, settings=small)).endswith(said)


def test_the_description_names_pages_spans_and_the_reading() -> None:
    said = describe_protocol(made_result())
    assert "20 pages" in said
    assert "2024-10-04 to 2024-10-19: 5 folds, 3 spans of 5; 1 visits a day of a test fold (0.05 of its pages)" in said
    assert "since the page's last visit" in said
    that_day = replace(made_result().settings, evolution=EvolutionSettings(reading="that_day"))
    assert "the paper's letter" in describe_protocol(replace(made_result(), settings=that_day))
    assert np.isfinite(NAD).all()
