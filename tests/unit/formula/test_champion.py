"""The champion: its origin as text, in a saved state and in an explanation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamsched import Formula, FormulaError, Outcome, Scheduler
from streamsched.formula.champion import BY_EVOLUTION, BY_HAND, Champion

URL = "https://a.example/"
RISEN = Champion(Formula.parse("posterior + 0.01 * t"), BY_EVOLUTION, 7, 1_790_000_000.0, 0.0312, "ndcg")


@pytest.mark.parametrize(
    ("champion", "text"),
    [
        (RISEN, "champion of evolution 7, promoted 2026-09-21, +3.1 % NDCG on held-out pages"),
        (Champion(Formula.parse("t")), "the first champion"),
        (Champion(Formula.parse("t"), BY_HAND), "set by hand"),
        (Champion(Formula.parse("t"), BY_HAND, 8, 1e9), "set by hand, record 8"),
        (
            Champion(Formula.parse("t"), BY_EVOLUTION, 2, 1e300, 0.5, "change_rate"),
            "champion of evolution 2, promoted second 1e+300, +50.0 % ChangeRate on held-out pages",
        ),
        (Champion(Formula.parse("t"), BY_EVOLUTION, 2), "champion of evolution 2"),
    ],
)
def test_text_and_json(champion: Champion, text: str) -> None:
    assert str(champion) == text
    assert Champion.from_json(json.loads(json.dumps(champion.to_json()))) == champion


def test_fields_that_are_no_champions() -> None:
    good = RISEN.to_json()
    for bad in (good | {"origin": "luck"}, good | {"record": "7"}, good | {"more": 1}, {"origin": "first"}):
        with pytest.raises(ValueError, match="champion"):
            Champion.from_json(bad)


@pytest.mark.parametrize("text", ["1e308*10-1e308*10", "t + (1e308*10) * 0", "t * log(1e308*10 - 1e308*10)"])
def test_constants_that_are_no_number_are_refused(text: str) -> None:
    scheduler = Scheduler(formula="t")
    for give in (lambda: Scheduler(formula=text), lambda: scheduler.use(text)):
        with pytest.raises(FormulaError, match="is not a number"):
            give()
    assert scheduler.formula.text == "t"


def test_the_scheduler_knows_and_saves_its_champion(tmp_path: Path) -> None:
    scheduler = Scheduler(formula="t")
    scheduler.observe(Outcome(URL, 1.0))
    assert scheduler.champion == Champion(Formula.parse("t"))
    assert "  formula    the first champion" in str(scheduler.explain(URL, now=2.0))
    scheduler.use("t * 2")
    assert scheduler.champion == Champion(Formula.parse("t * 2"), BY_HAND)
    digest = scheduler.digest()
    scheduler.use(Champion(Formula.parse("t * 2"), BY_EVOLUTION, 1))
    assert scheduler.digest() == digest  # the digest is of what the state means, not of how it came about
    scheduler.use(RISEN)
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert (loaded.champion, loaded.formula, loaded.digest()) == (RISEN, RISEN.formula, scheduler.digest())
    explanation = loaded.explain(URL, now=2.0)
    assert explanation.champion == RISEN.view()
    assert explanation.as_dict()["champion"] == {**RISEN.to_json(), "text": str(RISEN)}
    assert f"  formula    {RISEN}" in str(explanation)
