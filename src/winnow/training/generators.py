"""Trainable generators: log P_G(answer | question, context) with gradients, and greedy answers for evaluation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from winnow.modeling.loading import LanguageModel, load_causal_lm, load_seq2seq
from winnow.modeling.pair_inputs import PairTemplate, PairTokens, padded
from winnow.modeling.pair_model import PairModel, causal_tokens, seq2seq_tokens
from winnow.strategies.teaching import ScoredReply


@dataclass
class Generator(PairModel):
    """A language model that answers a question from one passage.

    Attributes:
        dtype: Type of the weights.
        max_answer: Maximum number of tokens in an answer, including the end token.

    """

    dtype: str = "float32"
    max_answer: int = 32

    def target(self, answer: str) -> list[int]:
        """Tokenise an answer, cut to `max_answer` tokens including the end token."""
        tokenizer = self.lm.tokenizer
        ids: list[int] = tokenizer(self.separator() + answer, add_special_tokens=False)["input_ids"]
        return [*ids[: self.max_answer - 1], int(tokenizer.eos_token_id)]

    def separator(self) -> str:
        """Return the text between the prompt and the answer."""
        return ""

    @abstractmethod
    def log_likelihood(self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        """Compute log P(target | row) in nats, summed over the target's tokens, as a tensor (rows,) with gradients."""

    def generate(self, rows: Sequence[Sequence[int]]) -> list[ScoredReply]:
        """Decode an answer to each row greedily."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id), left=not self.lm.model.config.is_encoder_decoder)
        with torch.inference_mode():
            output = self.lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
                input_ids=ids.to(self.lm.device), attention_mask=mask.to(self.lm.device), max_new_tokens=self.max_answer,
                do_sample=False, num_beams=1, return_dict_in_generate=True, output_logits=True,
                pad_token_id=self.lm.tokenizer.pad_token_id,
            )  # fmt: skip
        return decode_replies(self.lm, output, self.lm.prompt_width(ids))


def decode_replies(lm: LanguageModel, output: object, start: int) -> list[ScoredReply]:
    """Decode the output of `generate` from column `start` into texts with their log-probabilities."""
    sequences, logits = output.sequences[:, start:], output.logits  # type: ignore[attr-defined]
    log_probs = torch.stack([step.float().log_softmax(dim=-1) for step in logits], dim=1)
    token_log_probs = log_probs.gather(2, sequences[:, : log_probs.shape[1], None]).squeeze(2)
    replies = []
    for ids, values in zip(sequences.tolist(), token_log_probs.tolist(), strict=True):
        end = next((n for n, token in enumerate(ids) if token in lm.end_token_ids), len(ids))
        text = str(lm.tokenizer.decode(ids[:end], skip_special_tokens=True)).strip()
        replies.append(ScoredReply(text, sum(values[: end + 1])))
    return replies


def target_log_likelihood(logits_BTV: torch.Tensor, targets_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Sum the log-probabilities of the targets where the mask is 1; the result is (B,).

    The logits at position t predict the target at position t: callers shift them.
    """
    losses = torch.nn.functional.cross_entropy(
        logits_BTV.float().reshape(-1, logits_BTV.shape[-1]), targets_BT.reshape(-1), reduction="none"
    )
    return -(losses.view(targets_BT.shape) * mask_BT).sum(dim=1)


def decoded_log_likelihood(lm: LanguageModel, inputs: Mapping[str, Any], targets: Sequence[Sequence[int]]) -> torch.Tensor:
    """Compute log P(target | inputs) of an encoder-decoder as a tensor (rows,).

    `inputs` are either the inputs of the encoder or its outputs.
    """
    ids, mask = (tensor.to(lm.device) for tensor in padded(targets, int(lm.tokenizer.pad_token_id)))
    start = torch.full((len(targets), 1), int(lm.model.config.decoder_start_token_id), device=lm.device)
    output = lm.model(**inputs, decoder_input_ids=torch.cat([start, ids[:, :-1]], dim=1), use_cache=False)
    return target_log_likelihood(output.logits, ids, mask)


@dataclass
class Seq2SeqGenerator(Generator):
    """An encoder-decoder generator, such as T5."""

    revision: ClassVar[int] = 1

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_seq2seq(self.path, self.dtype, self.device)

    def pair_tokenizer(self) -> PairTokens:
        """Build a tokenizer that ends each pair with the end token."""
        return seq2seq_tokens(self)

    def log_likelihood(self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        """Compute log P(target | row): the encoder reads the pairs, the decoder the answers."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        inputs = {"input_ids": ids.to(self.lm.device), "attention_mask": mask.to(self.lm.device)}
        return decoded_log_likelihood(self.lm, inputs, targets)


@dataclass
class CausalGenerator(Generator):
    """A decoder-only generator.

    Attributes:
        template: Templates of question and passage, with a suffix that prompts for the answer.

    """

    revision: ClassVar[int] = 1

    template: PairTemplate = field(default_factory=lambda: PairTemplate(suffix=" answer:"))

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_causal_lm(self.path, self.dtype, self.device)

    def separator(self) -> str:
        """Return a space, which byte-level tokenizers expect before a word."""
        return " "

    def pair_tokenizer(self) -> PairTokens:
        """Build a tokenizer that ends each pair with the suffix of `form`."""
        return causal_tokens(self)

    def log_likelihood(self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        """Compute log P(target | row); left padding aligns the answers, so that only their logits are computed."""
        pad_id, device = int(self.lm.tokenizer.pad_token_id), self.lm.device
        ids, mask = padded([[*row, *target] for row, target in zip(rows, targets, strict=True)], pad_id, left=True)
        target_ids, target_mask = padded(targets, pad_id, left=True)
        output = self.lm.model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0).to(device),
            logits_to_keep=target_ids.shape[1] + 1,
            use_cache=False,
        )
        return target_log_likelihood(output.logits[:, :-1], target_ids.to(device), target_mask.to(device))
