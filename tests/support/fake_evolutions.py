"""Fake evolution functions for processes that the tests start: they win, lose, hang, crash or leave garbage."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.evolution.promotion import decide
from streamsched.evolution.records import Candidate, EvolutionResult
from streamsched.evolution.worker import RESULT_NAME
from streamsched.formula import Formula


def make_result(challenger: str, gain: float, seed: int, archive: Sequence[Formula] = ()) -> EvolutionResult:
    """A challenger that is better by `gain` everywhere."""
    level = np.linspace(0.2, 0.3, 24).reshape(4, 3, 2)
    verdict = decide(level, level * (1.0 + gain))
    elites = (challenger, f"{challenger} * {seed}", *(formula.text for formula in archive))
    return EvolutionResult(challenger, verdict, (Candidate(challenger, 0.3, 0.25, 0.2), Candidate("t", 0.1)), elites)


def win(
    _draws: Any, _champion: Formula, archive: Sequence[Formula], settings: EvolutionSettings, seed: int
) -> EvolutionResult:
    return replace(make_result("posterior + 0.01 * t", 0.1, seed, archive), metric=settings.metric)


def lose(*given: Any) -> EvolutionResult:
    return make_result("NAD", -0.1, given[-1])


def find_nothing(*_given: object) -> EvolutionResult:
    return EvolutionResult(None, None)


def win_with_unknown_terminal(*_given: object) -> EvolutionResult:
    return make_result("unheard * t", 0.1, 0)


def look(draws: Any, champion: Formula, archive: Any, settings: EvolutionSettings, seed: int) -> EvolutionResult:
    """Report the arguments and the process's priority in the candidates."""
    observed = [len(draws), draws[0].pages, draws[0].cycles, settings.workers, os.nice(0), seed]
    texts = [*map(str, observed), champion.text, *(formula.text for formula in archive)]
    return EvolutionResult(None, None, tuple(Candidate(text) for text in texts))


def hang(*_given: object) -> EvolutionResult:
    while True:
        time.sleep(3600)


def hang_deaf(*_given: object) -> EvolutionResult:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return hang()


def crash(*_given: object) -> EvolutionResult:
    raise RuntimeError("out of ideas")


def die(*_given: object) -> EvolutionResult:
    os.kill(os.getpid(), signal.SIGKILL)
    return hang()


def leave_garbage(*_given: object) -> EvolutionResult:
    (Path(sys.argv[1]) / RESULT_NAME).write_text('{"crc": 1, "content": "[]"')
    os._exit(0)


def leave_nothing(*_given: object) -> EvolutionResult:
    os._exit(0)


def promote_without_gain(*_given: object) -> EvolutionResult:
    result = make_result("t", 0.1, 0)
    assert result.verdict is not None
    object.__setattr__(result.verdict, "noise", 1e9)
    return result
