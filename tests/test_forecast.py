"""The dry run counts what the driver then does."""

from pathlib import Path

import pytest

from winnow.driver import Driver, Job
from winnow.errors import ConfigError
from winnow.forecast import forecast
from winnow.ledger import Ledger
from winnow.records import Decoding, Generate, Price
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.marginal import Marginal
from winnow.strategies.prompt import Prompt
from winnow.testing import ScriptedReader, context, question

PROMPT = Prompt("{contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>")
CONTEXTS = [context(n, f"t{n}") for n in (1, 2, 3)]


def jobs() -> list[Job]:
    plans = [Concatenation(PROMPT, Decoding()), ConcatPF(PROMPT, Decoding())]
    return [Job(n, plan.plan(question(), CONTEXTS)) for n, plan in enumerate(plans)]


def test_bounds_hold_what_happens(tmp_path: Path) -> None:
    """Two concatenations merge into one call; the fallback adds none to three. Nothing is asked, nothing stored."""
    with Ledger(tmp_path / "l.sqlite") as ledger:
        found = forecast(jobs, ScriptedReader(), ledger)
        assert (found.asked, found.missing, found.stored, found.seconds) == ((2, 5), (1, 4), (0, 0), None)
        assert found.tokens[0] > 0
        assert len(ledger) == 0


def test_money_bounds(tmp_path: Path) -> None:
    """At the least the certain prompts and no reply; at the most every prompt and full replies."""
    with Ledger(tmp_path / "l.sqlite") as ledger:
        found = forecast(jobs, ScriptedReader(), ledger, Price(1.0, 10.0))
        low, high = found.tokens
        assert found.money == (pytest.approx(low / 1e6), pytest.approx((high + 10 * 4 * 16) / 1e6))


def test_after_the_run_nothing_is_missing(tmp_path: Path) -> None:
    """What the ledger holds is used, so that the bounds close."""
    with Ledger(tmp_path / "l.sqlite") as ledger:
        list(Driver({Generate: ScriptedReader()}, ledger).run(jobs()))
        found = forecast(jobs, ScriptedReader(), ledger)
        assert (found.asked, found.stored, found.missing) == ((5, 5), (4, 4), (0, 0))
        assert found.seconds == (0.0, 0.0)


def test_what_the_engine_cannot_do_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    """A strategy that scores likelihoods, and a reader that only writes."""
    with Ledger(tmp_path / "l.sqlite") as ledger, pytest.raises(ConfigError, match="asks for Likelihood, and scripted serves"):
        forecast(lambda: [Job(0, Marginal(PROMPT, Decoding()).plan(question(), CONTEXTS))], ScriptedReader(), ledger)
