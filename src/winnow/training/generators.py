"""Trainable generators, which answer a question from one context.

They compute log P_G(answer | question, context) with gradients for training, and greedy answers for
evaluation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge

from winnow.modeling.loading import LanguageModel, load_seq2seq
from winnow.modeling.pair_inputs import PairTokenizer, pad_rows
from winnow.modeling.pair_model import PairModel, build_seq2seq_tokenizer
from winnow.strategies.teaching import ScoredReply

if TYPE_CHECKING:
    import torch


@dataclass
class Generator(PairModel):
    """A language model that answers a question from one passage.

    Attributes:
        dtype: Data type of the weights. Training needs "float32".
        max_answer: Maximum number of tokens in an answer, including the end token. Longer answers
            are truncated, and counted in `truncated_answers`.
    """

    dtype: str = "float32"
    max_answer: Annotated[int, Ge(1)] = 32
    _truncated_answers: set[str] = field(default_factory=set, repr=False)

    @property
    def truncated_answers(self) -> int:
        """Return the number of distinct answers truncated to `max_answer` so far."""
        return len(self._truncated_answers)

    def encode_answer(self, answer: str) -> list[int]:
        """Tokenize an answer and append the end token, truncated to `max_answer` tokens in all."""
        tokenizer = self.lm.tokenizer
        ids: list[int] = tokenizer(self.get_answer_prefix() + answer, add_special_tokens=False)[
            "input_ids"
        ]
        if len(ids) >= self.max_answer:
            self._truncated_answers.add(answer)
        return [*ids[: self.max_answer - 1], int(tokenizer.eos_token_id)]

    def get_answer_prefix(self) -> str:
        """Return the text between the prompt and the answer, which is tokenized with the answer."""
        return ""

    @abstractmethod
    def log_likelihood(
        self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """Compute log P(target | row) in nats with gradients.

        Args:
            rows: Token ids of the question-passage pairs.
            targets: Token ids of the answer to each pair, including the end token.

        Returns:
            Sum of the log-probabilities of each target's tokens, (rows,).
        """

    def generate(self, rows: Sequence[Sequence[int]]) -> list[ScoredReply]:
        """Generate a greedy answer from each row of token ids."""
        import torch

        ids, mask = pad_rows(
            rows,
            int(self.lm.tokenizer.pad_token_id),
            left=not self.lm.model.config.is_encoder_decoder,
        )
        with torch.inference_mode():
            output = self.lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
                input_ids=ids.to(self.lm.device), attention_mask=mask.to(self.lm.device),
                max_new_tokens=self.max_answer, do_sample=False, num_beams=1,
                return_dict_in_generate=True, output_logits=True,
                pad_token_id=self.lm.tokenizer.pad_token_id, **self.lm.build_start(len(rows)),
            )  # fmt: skip
        return decode_replies(self.lm, output, self.lm.get_prompt_width(ids))


def decode_replies(lm: LanguageModel, output: object, start: int) -> list[ScoredReply]:
    """Decode the output of transformers' `generate` into texts with their log-probabilities.

    Args:
        lm: Model that generated the output.
        output: Output with its sequences and logits.
        start: Column of the sequences in which the replies start.
    """
    import torch

    sequences, logits = output.sequences[:, start:], output.logits  # type: ignore[attr-defined]
    log_probs = torch.stack(
        [step_logits.float().log_softmax(dim=-1) for step_logits in logits], dim=1
    )
    token_log_probs = log_probs.gather(2, sequences[:, : log_probs.shape[1], None]).squeeze(2)
    replies = []
    for ids, reply_log_probs in zip(sequences.tolist(), token_log_probs.tolist(), strict=True):
        end = next(
            (position for position, token_id in enumerate(ids) if token_id in lm.end_token_ids),
            len(ids),
        )
        text = str(lm.tokenizer.decode(ids[:end], skip_special_tokens=True)).strip()
        replies.append(ScoredReply(text, sum(reply_log_probs[: end + 1])))
    return replies


def sum_target_log_probs(
    logits_BTV: torch.Tensor, targets_BT: torch.Tensor, mask_BT: torch.Tensor
) -> torch.Tensor:
    """Sum the log-probabilities of each row's targets, (B,).

    Args:
        logits_BTV: Logits, shifted so that those at position t predict the target at position t.
        targets_BT: Token ids of the targets.
        mask_BT: Mask that is 1 for tokens of a target and 0 for padding.
    """
    import torch

    losses = torch.nn.functional.cross_entropy(
        logits_BTV.float().reshape(-1, logits_BTV.shape[-1]),
        targets_BT.reshape(-1),
        reduction="none",
    )
    return -(losses.view(targets_BT.shape) * mask_BT).sum(dim=1)


def compute_seq2seq_log_likelihood(
    lm: LanguageModel, inputs: Mapping[str, Any], targets: Sequence[Sequence[int]]
) -> torch.Tensor:
    """Compute log P(target | inputs) of an encoder-decoder in nats, (rows,).

    Args:
        lm: Encoder-decoder model.
        inputs: Keyword arguments of the model: either the inputs of the encoder or its outputs.
        targets: Token ids of the target of each row.
    """
    import torch

    ids, mask = (
        tensor.to(lm.device) for tensor in pad_rows(targets, int(lm.tokenizer.pad_token_id))
    )
    start = lm.decoder_start
    start_ids = torch.tensor([start], device=lm.device).expand(len(targets), -1)
    output = lm.model(
        **inputs, decoder_input_ids=torch.cat([start_ids, ids[:, :-1]], dim=1), use_cache=False
    )
    return sum_target_log_probs(output.logits[:, len(start) - 1 :], ids, mask)


@dataclass
class Seq2SeqGenerator(Generator):
    """An encoder-decoder generator, such as T5."""

    revision: ClassVar[int] = 5

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_seq2seq(self.path, self.dtype, self.device)

    def build_pair_tokenizer(self) -> PairTokenizer:
        """Build a tokenizer that ends each pair with the end token."""
        return build_seq2seq_tokenizer(self)

    def log_likelihood(
        self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """Compute log P(target | row) in nats. The encoder reads rows, and the decoder targets."""
        ids, mask = pad_rows(rows, int(self.lm.tokenizer.pad_token_id))
        inputs = {"input_ids": ids.to(self.lm.device), "attention_mask": mask.to(self.lm.device)}
        return compute_seq2seq_log_likelihood(self.lm, inputs, targets)
