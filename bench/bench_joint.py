"""Joint training, real tokens a second: chunks of like length against a plain loop padded to the batch's longest.

python -m bench.bench_joint
"""

import random
import tempfile
import time
from pathlib import Path

import torch

from winnow.estimators.t5 import T5Estimator
from winnow.records import Context, Passage, Question
from winnow.synthetic.scratch_t5 import ScratchT5, make_t5
from winnow.training.backward import backward
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.groups import Group
from winnow.training.losses import joint_loss
from winnow.training.re_rag import ReRag
from winnow.training.settings import LoopSettings

WORDS = [f"word{n}" for n in range(8000)]
QUESTIONS, CONTEXTS, BATCHES = 4, 20, 3


def batches() -> list[list[Group]]:
    """Batches of questions with twenty contexts of 40 to 200 words."""
    rng = random.Random(13)

    def group(name: str) -> Group:
        contexts = [
            Context(
                Passage(f"{name}-{n}", rng.choice(WORDS), " ".join(rng.choices(WORDS, k=rng.randint(40, 200)))), n, 0.0, False
            )
            for n in range(1, CONTEXTS + 1)
        ]
        return Group(Question(name, " ".join(rng.choices(WORDS, k=8)), (rng.choice(WORDS),)), tuple(contexts))

    return [[group(f"{b}-{q}") for q in range(QUESTIONS)] for b in range(BATCHES)]


def plain(method: ReRag, groups: list[Group]) -> None:
    """Run all pairs of a batch at once, with one backward pass."""
    assert method.generator is not None
    pairs = [(g.question.text, c.passage) for g in groups for c in g.contexts]
    rows = [method.estimator.tokens.encode(*pair) for pair in pairs]
    targets = [method.generator.target(g.question.answers[0]) for g in groups for _ in g.contexts]
    judged = method.estimator.estimate(rows, [0] * len(rows))
    answer = method.generator.log_likelihood(rows, targets)
    shape = (len(groups), CONTEXTS)
    mask = torch.ones(shape, dtype=torch.bool)
    loss = joint_loss(judged.log_odds.view(shape), judged.other.view(shape), answer.view(shape), mask, objective="marginal")
    loss.total.backward()  # type: ignore[no-untyped-call]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(
            make_t5(
                Path(folder) / "t5", ["question: title: context: true false", " ".join(WORDS)], ScratchT5(256, 1024, 4, 4), 1
            )
        )
        method = ReRag(T5Estimator(path, dtype="float32"), Seq2SeqGenerator(path), objective="marginal")
        settings = LoopSettings(chunk_tokens=4096)
        work = batches()
        tokens = 2 * sum(
            len(method.estimator.tokens.encode(g.question.text, c.passage)) for b in work for g in b for c in g.contexts
        )
        rates = []
        for run in (plain, lambda m, g: backward(m, g, g, settings, 0)):
            run(method, work[0])
            started = time.perf_counter()
            for groups in work:
                run(method, groups)
                for lm in method.models.values():
                    lm.model.zero_grad()
            rates.append(tokens / (time.perf_counter() - started))
        print(f"joint training: a plain loop {rates[0]:.0f} real tokens/s, ours {rates[1]:.0f}: {rates[1] / rates[0]:.2f} x")


if __name__ == "__main__":
    main()
