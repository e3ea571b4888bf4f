"""Compare the speed of joint training with a plain loop that pads every pair to the longest of its
batch.

Winnow trains on chunks of pairs of similar length. Speed is counted in tokens per second without
padding.

python -m bench.bench_joint
"""

import random
import tempfile
import time
from pathlib import Path

import torch

from bench._measure import scale, synchronise
from winnow.estimators.t5 import T5Estimator
from winnow.records import Context, Passage, Question
from winnow.synthetic.scratch_t5 import ScratchT5, make_t5
from winnow.training.backward import accumulate_gradients
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.groups import Group
from winnow.training.losses import joint_loss
from winnow.training.re_rag import ReRag
from winnow.training.settings import LoopSettings

WORDS = [f"word{n}" for n in range(8000)]
QUESTIONS, CONTEXTS, BATCHES = scale(4, 2), scale(20, 3), scale(3)


def make_batches() -> list[list[Group]]:
    """Make batches of questions with twenty contexts of 40 to 200 random words."""
    rng = random.Random(13)

    def make_group(name: str) -> Group:
        contexts = [
            Context(
                Passage(
                    f"{name}-{n}",
                    rng.choice(WORDS),
                    " ".join(rng.choices(WORDS, k=rng.randint(40, 200))),
                ),
                n,
                0.0,
                False,
            )
            for n in range(1, CONTEXTS + 1)
        ]
        return Group(
            Question(name, " ".join(rng.choices(WORDS, k=8)), (rng.choice(WORDS),)),
            tuple(contexts),
        )

    return [
        [make_group(f"{batch}-{number}") for number in range(QUESTIONS)] for batch in range(BATCHES)
    ]


def run_plain_batch(method: ReRag, groups: list[Group]) -> None:
    """Run all pairs of a batch at once, with one backward pass; the baseline."""
    assert method.generator is not None
    pairs = [
        (group.question.text, context.passage) for group in groups for context in group.contexts
    ]
    rows = [method.estimator.tokens.encode(*pair) for pair in pairs]
    targets = [
        method.generator.encode_answer(group.question.answers[0])
        for group in groups
        for _ in group.contexts
    ]
    estimates = method.estimator.estimate(rows, [0] * len(rows))
    log_likelihoods = method.generator.log_likelihood(rows, targets)
    shape = (len(groups), CONTEXTS)
    mask = torch.ones(shape, dtype=torch.bool, device=log_likelihoods.device)
    loss = joint_loss(
        estimates.log_odds.view(shape),
        estimates.other_probability.view(shape),
        log_likelihoods.view(shape),
        mask,
        objective="marginal",
    )
    loss.total.backward()  # type: ignore[no-untyped-call]


def measure_joint_training(folder: Path, size: ScratchT5, device: str, chunk_tokens: int) -> None:
    """Train an estimator and a generator of a size on the same batches as a plain loop, and print
    the ratio.
    """
    path = str(make_t5(folder, ["question: title: context: true false", " ".join(WORDS)], size, 1))
    method = ReRag(
        T5Estimator(path, dtype="float32", device=device),
        Seq2SeqGenerator(path, device=device),
        objective="marginal",
    )
    settings = LoopSettings(chunk_tokens=chunk_tokens)
    work = make_batches()
    num_tokens = 2 * sum(  # the estimator and the generator both read every pair
        len(method.estimator.tokens.encode(group.question.text, context.passage))
        for groups in work
        for group in groups
        for context in group.contexts
    )
    rates = []
    for run in (
        run_plain_batch,
        lambda model, groups: accumulate_gradients(model, groups, groups, settings, 0),
    ):
        run(method, work[0])
        synchronise()
        started = time.perf_counter()
        for groups in work:
            run(method, groups)
            for lm in method.models.values():
                lm.model.zero_grad()
        synchronise()
        rates.append(num_tokens / (time.perf_counter() - started))
    print(
        f"joint training: a plain loop {rates[0]:.0f} real tokens/s, ours {rates[1]:.0f}: "
        f"{rates[1] / rates[0]:.2f} x"
    )


def main() -> None:
    """Measure small models on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        measure_joint_training(
            Path(folder) / "t5", ScratchT5(256, 1024, 4, 4), "cpu", chunk_tokens=4096
        )


if __name__ == "__main__":
    main()
