"""What later stages need is checked before a call is paid or a step is trained."""

from pathlib import Path

import pytest
from conftest import Run


def test_a_split_that_a_later_stage_reads_is_missed_before_any_call(prepared: Run, tmp_path: Path) -> None:
    """By the command that only checks, and by the stage that would pay."""
    done = prepared("check", "closed_book.split=nope", check=False)
    assert done.returncode == 1
    assert "closed_book.split=nope: the questions of dataset=towns have the splits dev, test, train." in " ".join(
        done.stdout.replace("│", " ").split()
    )
    assert "1 of 5 checks failed. Nothing was run." in done.stderr
    before = (tmp_path / "data/ledger.sqlite").exists()
    training = ["reader.tuned=true", "training.evaluation.split=nope"]
    done = prepared("train_reader", *training, check=False)
    assert "training.evaluation.split=nope: the questions" in done.stderr
    done = prepared("closed_book", "closed_book.limit=1", *training, check=False)
    assert "training.evaluation.split=nope: the questions" in done.stderr
    assert (tmp_path / "data/ledger.sqlite").exists() is before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reader=folder", "reader.base=owner/name"], "reader.base=owner/name stands for one of yours"),
        (["report.paper={name:rage,part:table9,dataset:NQ,model:NQ}"], "table9"),
        (["metric=[judged]", "reader@judge=openai", "judge.base=gpt-4o-mini"], "OPENAI_API_KEY"),
    ],
)
def test_names_tables_and_keys_are_missed_first(run: Run, words: list[str], message: str) -> None:
    """A judge's key, a paper's table and a placeholder, although only the report reads some of them."""
    done = run("check", *words, check=False, OPENAI_API_KEY="")
    assert done.returncode == 1
    assert message.replace(" ", "") in "".join(done.stdout.replace("│", "").split())


def test_an_experiment_that_has_all_is_said_so(run: Run) -> None:
    """Before anything was made."""
    assert run("check").stdout.count("ok") == 5
