"""Fakes for your own tests: a reader that answers by a function, and small real models made on the spot."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from winnow.records import Answer, Context, Generate, Generation, Passage, Plan, Question, Request, Result, Usage
from winnow.reports.cells import CellResult

Reply = Callable[[str], str]


@dataclass
class ScriptedReader:
    """An engine that answers each prompt (the text of its last message) by a function; counts what it was asked.

    `window` is in characters; `batch` results come back per `collect`.
    """

    reply: Reply = lambda _: "unknown"
    identity: str = "scripted"
    capacity: int = 64
    batch: int = 8
    window: int = 1_000_000
    asked: list[str] = field(default_factory=list)
    _pending: list[Generate] = field(default_factory=list)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the one kind."""
        return (Generate,)

    def check(self) -> None:
        """Nothing can be missing."""

    def close(self) -> None:
        """Nothing is open."""

    def fits(self, request: Request) -> bool:
        """Tell whether the prompt is within the window."""
        return self.size(request) <= self.window

    def size(self, request: Request) -> int:
        """Return the prompt's length in characters."""
        return sum(len(m.content) for m in request.messages) if isinstance(request, Generate) else 0

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests."""
        self._pending += [request for request in requests if isinstance(request, Generate)]

    def collect(self) -> Sequence[tuple[Request, Result]]:
        """Answer up to `batch` requests."""
        due, self._pending = self._pending[: self.batch], self._pending[self.batch :]
        return [(request, self._answer(request)) for request in due]

    def _answer(self, request: Generate) -> Generation:
        prompt = request.messages[-1].content
        self.asked.append(prompt)
        text = self.reply(prompt)
        return Generation(text, usage=Usage(len(prompt.split()), len(text.split())))


def play(plan: Plan, replies: Sequence[Sequence[str]]) -> tuple[Answer, list[list[str]]]:
    """Run a plan by hand: each round gets its list of replies; return the answer and the prompts of each round."""
    prompts: list[list[str]] = []
    rounds = iter(replies)
    try:
        asked = next(plan)
        while True:
            prompts.append([r.messages[-1].content for r in asked if isinstance(r, Generate)])
            asked = plan.send([Generation(text) for text in next(rounds)])
    except StopIteration as stop:
        return stop.value, prompts


def context(number: int, text: str, *, has_answer: bool = False, is_gold: bool = False, rank: int | None = None) -> Context:
    """Return a context with the passage id "p<number>", ranked by its number."""
    passage = Passage(f"p{number}", f"Title {number}", text)
    return Context(passage, number if rank is None else rank, 1.0 / max(number, 1), has_answer, is_gold)


def question(text: str = "Who wrote Emma?", answers: Sequence[str] = ("Jane Austen",), question_id: str = "q1") -> Question:
    """Return a question."""
    return Question(question_id, text, tuple(answers))


PASSAGES = (
    Passage("a", "Paris", "Paris is the capital of France on the Seine."),
    Passage("b", "Berlin", "Berlin is the capital of Germany."),
    Passage("c", "Seine", "The Seine is a river that flows through France."),
    Passage("d", "Dogs", "Dogs bark and cats meow."),
)
"""A corpus of four, for tests of retrievers."""


def cell_result(strategy: str, k: int, gold: str, ems: Sequence[float]) -> CellResult:
    """Return a cell with these exact matches; every second question has a gold passage."""
    rows = [
        {
            "question_id": str(n), "em": em, "f1": em, "accuracy": em, "unknown": not em, "not_majority": False,
            "pooled": bool(em) and strategy == "post_fusion", "candidates": ["x"] if strategy == "post_fusion" else [],
            "tokens_in": 100 + n, "tokens_out": 2, "seconds": 0.5, "calls": k or 1,
            "provenance": "distant" if n % 2 and k else "none",
        }
        for n, em in enumerate(ems)
    ]  # fmt: skip
    return CellResult(strategy, k, gold, rows)


def tiny_tokenizer(texts: Iterable[str]) -> Any:
    """Return a byte-level BPE tokenizer of 400 pieces, trained on the texts, with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<pad>", "<end>", "<start>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    wrapped: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, **dict(zip(("pad_token", "eos_token", "bos_token"), special, strict=True))
    )
    wrapped.chat_template = "{% for m in messages %}<start>{{ m['content'] }}<end>{% endfor %}<start>"
    return wrapped


def tiny_causal_lm(folder: Path, texts: Iterable[str], *, seed: int = 0, window: int = 2048) -> Path:
    """Write a Llama of two layers with random weights and a tokenizer to a folder; it answers gibberish, repeatably."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    tokenizer = tiny_tokenizer(texts)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=window, eos_token_id=1, bos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_t5(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Write a T5 of two and two layers with random weights and a tokenizer to a folder."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(seed)
    tokenizer = tiny_tokenizer(texts)
    config = T5Config(  # type: ignore[call-arg]  # every config takes a start token
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_encoder(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Write a BERT of two layers with random weights and a tokenizer to a folder."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    tokenizer = tiny_tokenizer(texts)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, pad_token_id=0,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_dpr(folder: Path, texts: Iterable[str]) -> tuple[Path, Path]:
    """Write DPR's question encoder and context encoder, with random weights, to two folders below `folder`."""
    import torch
    from transformers import DPRConfig, DPRContextEncoder, DPRQuestionEncoder

    torch.manual_seed(0)
    tokenizer = tiny_tokenizer(texts)
    config = DPRConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, pad_token_id=0,
    )  # fmt: skip
    folders = folder / "question", folder / "context"
    for path, kind in zip(folders, (DPRQuestionEncoder, DPRContextEncoder), strict=True):
        kind(config).save_pretrained(path)
        tokenizer.save_pretrained(path)
    return folders
