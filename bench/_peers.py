"""Answer a grid of cells as a script would that a user writes instead of using Winnow: bm25s and
transformers, or FlashRAG's retriever and generator. Or only retrieve, with bm25s or Tantivy.
`bench_peers` starts it.

python bench/_peers.py transformers|flashrag|bm25s|tantivy specification.json

It imports nothing of Winnow, so that FlashRAG may have an environment of its own. The specification
names the model, the corpus (JSON lines with id, title, text and contents), the questions, the
templates of the prompts, the cells and the file to which the answers are written.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Passage: TypeAlias = dict[str, str]
Generate: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Function that returns the replies to prompts without a chat template."""
Search: TypeAlias = Callable[[Sequence[str], int], Sequence[Sequence[Passage]]]
"""Function that returns the best-ranked passages of questions."""

BATCH = 8
"""Number of prompts in a batch of both peers."""


def open_bm25s(spec: dict[str, Any]) -> Search:
    """Index the corpus with bm25s."""
    import bm25s
    import Stemmer

    passages = _read_passages(spec)
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{passage['title']} {passage['text']}" for passage in passages]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stemmer=stemmer, show_progress=False), show_progress=False)

    def search(questions: Sequence[str], k: int) -> Sequence[Sequence[Passage]]:
        tokens = bm25s.tokenize(list(questions), stemmer=stemmer, show_progress=False)
        rows = index.retrieve(tokens, k=k, return_as="documents", show_progress=False)
        return [[passages[number] for number in row] for row in rows]

    return search


def open_tantivy(spec: dict[str, Any]) -> Search:
    """Index the corpus with Tantivy in a temporary folder."""
    import re

    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_unsigned_field("number", stored=True)
    schema.add_text_field("text", tokenizer_name="en_stem")
    folder = Path(spec["answers"]).parent / "tantivy"
    folder.mkdir()
    index = tantivy.Index(schema.build(), path=str(folder))
    passages = _read_passages(spec)
    writer = index.writer()
    for number, passage in enumerate(passages):
        text = f"{passage['title']} {passage['text']}"
        writer.add_document(tantivy.Document(number=number, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(questions: Sequence[str], k: int) -> Sequence[Sequence[Passage]]:
        rankings = []
        for question in questions:
            query = index.parse_query(" ".join(re.findall(r"\w+", question)).lower(), ["text"])
            hits = searcher.search(query, k).hits
            rankings.append([passages[searcher.doc(hit)["number"][0]] for _, hit in hits])
        return rankings

    return search


def open_transformers(spec: dict[str, Any]) -> tuple[Search, Generate]:
    """Index the corpus with bm25s, and load the model with transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    search = open_bm25s(spec)
    tokenizer = AutoTokenizer.from_pretrained(spec["model"], padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model: Any = AutoModelForCausalLM.from_pretrained(spec["model"], dtype="auto")

    @torch.inference_mode()
    def generate(prompts: Sequence[str]) -> list[str]:
        chats = [_apply_template(tokenizer, prompt) for prompt in prompts]
        replies = []
        for start in range(0, len(chats), BATCH):
            inputs = tokenizer(
                chats[start : start + BATCH],
                return_tensors="pt",
                padding=True,
                add_special_tokens=False,
            )
            outputs = model.generate(
                **inputs, max_new_tokens=spec["max_new_tokens"], do_sample=False
            )
            replies += tokenizer.batch_decode(
                outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
            )
        return replies

    return search, generate


def open_flashrag(spec: dict[str, Any]) -> tuple[Search, Generate]:
    """Index the corpus, and open the retriever and the generator, with FlashRAG's code."""
    from flashrag.config import Config
    from flashrag.retriever.index_builder import Index_Builder
    from flashrag.utils import get_generator, get_retriever

    folder = Path(spec["answers"]).parent / "flashrag"
    Index_Builder(
        retrieval_method="bm25",
        model_path=None,
        corpus_path=spec["corpus"],
        save_dir=str(folder),
        max_length=180,
        batch_size=512,
        use_fp16=False,
        bm25_backend="bm25s",
    ).build_index()
    config = Config(
        config_dict={
            "retrieval_method": "bm25",
            "bm25_backend": "bm25s",
            "index_path": str(folder / "bm25"),
            "corpus_path": spec["corpus"],
            "generator_model": "reader",
            "generator_model_path": spec["model"],
            "generator_batch_size": BATCH,
            "generator_max_input_len": 8192,
            "generation_params": {"max_tokens": spec["max_new_tokens"], "do_sample": False},
            "framework": "hf",
            "save_dir": str(folder),
            "data_dir": str(folder),
            "save_intermediate_data": False,
        }
    )
    retriever, generator = get_retriever(config), get_generator(config)

    def search(questions: Sequence[str], k: int) -> Sequence[Sequence[Passage]]:
        rankings: Sequence[Sequence[Passage]] = retriever.batch_search(list(questions), num=k)
        return rankings

    def generate(prompts: Sequence[str]) -> Sequence[str]:
        replies: Sequence[str] = generator.generate(
            [_apply_template(generator.tokenizer, prompt) for prompt in prompts]
        )
        return replies

    return search, generate


def _read_passages(spec: dict[str, Any]) -> list[Passage]:
    """Return the passages of the corpus."""
    return [json.loads(line) for line in Path(spec["corpus"]).read_text().splitlines()]


def _apply_template(tokenizer: Any, prompt: str) -> str:
    """Render a prompt with the chat template of the model."""
    messages = [{"role": "user", "content": prompt}]
    chat: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return chat


class Cells:
    """Answers of cells, each of which makes all its calls by itself.

    Args:
        templates: Templates of prompts with contexts, without, and with candidates, and of a
            passage.
        generate: Function that returns the replies to prompts.
    """

    def __init__(self, templates: dict[str, str], generate: Generate) -> None:
        """Store the arguments."""
        self.templates = templates
        self.generate = generate

    def answer(
        self, strategy: str, questions: Sequence[str], rankings: Sequence[Sequence[Passage]]
    ) -> list[str]:
        """Return the answers of a strategy, which is one of Winnow's names."""
        if strategy == "closed_book":
            return self._reply(
                [
                    self.templates["without_contexts"].format(question=question).strip()
                    for question in questions
                ]
            )
        if strategy == "concatenation":
            return self._concatenate(questions, rankings)
        if strategy == "post_fusion":
            return self._fuse(self._answer_each(questions, rankings))
        if strategy == "pf_concat":
            return self._choose(questions, rankings, self._answer_each(questions, rankings))
        answers = self._concatenate(questions, rankings)
        rest = [number for number, answer in enumerate(answers) if _is_unknown(answer)]
        replies = self._answer_each([questions[n] for n in rest], [rankings[n] for n in rest])
        for number, answer in zip(rest, self._fuse(replies), strict=True):
            answers[number] = answer
        return answers

    def _concatenate(
        self, questions: Sequence[str], rankings: Sequence[Sequence[Passage]]
    ) -> list[str]:
        """Show all passages of a question in one prompt."""
        return self._reply(list(map(self._render, questions, rankings)))

    def _answer_each(
        self, questions: Sequence[str], rankings: Sequence[Sequence[Passage]]
    ) -> list[list[str]]:
        """Show each passage in a prompt of its own, and return the replies by question."""
        replies = self._reply(
            [
                self._render(question, [passage])
                for question, ranking in zip(questions, rankings, strict=True)
                for passage in ranking
            ]
        )
        rest = iter(replies)
        return [[next(rest) for _ in ranking] for ranking in rankings]

    def _fuse(self, replies: Sequence[Sequence[str]]) -> list[str]:
        """Return the most frequent known reply of each question, or of several the one of the
        best-ranked passage.
        """
        answers = []
        for own in replies:
            votes = Counter(reply.lower() for reply in own if not _is_unknown(reply))
            winner = votes.most_common(1)[0][0] if votes else "unknown"
            answers.append(next((one for one in own if one.lower() == winner), "unknown"))
        return answers

    def _choose(
        self,
        questions: Sequence[str],
        rankings: Sequence[Sequence[Passage]],
        replies: Sequence[Sequence[str]],
    ) -> list[str]:
        """Show the passages with a known reply and these replies in one prompt."""
        prompts = {}
        for number, own in enumerate(replies):
            pairs = [
                (reply, passage)
                for reply, passage in zip(own, rankings[number], strict=True)
                if not _is_unknown(reply)
            ]
            candidates: dict[str, str] = {}
            for reply, _ in pairs:
                candidates.setdefault(reply.lower(), reply)
            if pairs:
                prompts[number] = self._render(
                    questions[number],
                    [passage for _, passage in pairs],
                    "; ".join(candidates.values()),
                )
        answers = dict(zip(prompts, self._reply(list(prompts.values())), strict=True))
        return [answers.get(number, "unknown") for number in range(len(questions))]

    def _render(self, question: str, passages: Sequence[Passage], candidates: str = "") -> str:
        """Fill the template of a prompt with passages, and candidates if there are any."""
        contexts = "\n".join(
            self.templates["passage"].format(number=number, **passage)
            for number, passage in enumerate(passages, start=1)
        )
        template = self.templates["with_candidates" if candidates else "with_contexts"]
        filled = template.format(contexts=contexts, question=question, candidates=candidates)
        return filled.strip()

    def _reply(self, prompts: Sequence[str]) -> list[str]:
        """Return replies without surrounding spaces and final periods."""
        return [reply.strip().rstrip(".") for reply in self.generate(prompts)] if prompts else []


def _is_unknown(answer: str) -> bool:
    """Return whether an answer is the word of the prompt's instruction."""
    return answer.lower() in ("", "unknown")


def main() -> None:
    """Answer all cells of a specification, or retrieve, and write the answers or rankings."""
    name, file = sys.argv[1:]
    spec = json.loads(Path(file).read_text())
    if name in ("bm25s", "tantivy"):
        search = {"bm25s": open_bm25s, "tantivy": open_tantivy}[name](spec)
        rankings = search(spec["questions"], spec["k"])
        ids = [[passage["id"] for passage in ranking] for ranking in rankings]
        Path(spec["answers"]).write_text(json.dumps(ids))
        return
    search, generate = {"transformers": open_transformers, "flashrag": open_flashrag}[name](spec)
    cells = Cells(spec["templates"], generate)
    answers = [
        cells.answer(strategy, spec["questions"], search(spec["questions"], k) if k else [])
        for strategy, k in spec["cells"]
    ]
    Path(spec["answers"]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
