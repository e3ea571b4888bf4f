"""Cross-encoder: a relevance estimator whose BERT-like encoder reads question and passage together.

The suffixes of tensor names are dimensions: B for pairs, T for tokens and D for features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt

from winnow.errors import ConfigError, ModelError
from winnow.estimators.pair import Batch, PairEstimator, PairScores
from winnow.modeling.loading import LanguageModel, load_encoder
from winnow.modeling.pair_inputs import PairTemplate, PairTokenizer, pad_rows

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


@dataclass
class CrossEncoder(PairEstimator):
    """A relevance estimator that scores a pair in one forward pass of an encoder.

    Args:
        template: Templates of question and passage.
        head: Function that computes the log-odds from the output of the encoder. "classes" is a
            classifier over the first token. The log-odds are the difference of its two logits, or
            its only logit, as in rerankers from the Hugging Face Hub, or those of the class
            `relevant_class` against all others. Its weights are random if the model folder has
            none. "pooled" is `scale` times the cosine similarity of two mean vectors: one of the
            question's tokens and one of the passage's tokens, after they have attended to each
            other. A sentence encoder needs no new weights for it.
        scale: Factor of the cosine similarity in the pooled head.
        separate_layers: Number of layers, counted from the first, in which question and passage do
            not attend to each other. With the pooled head and all layers separate, the score is the
            sentence encoder's scaled cosine similarity. With fewer separate layers, the score
            starts close to it, and training teaches the other layers to read question and passage
            together. PreTTR (MacAvaney et al. 2020) has such layers for speed.
        relevant_class: Name of the class of relevant pairs in the model's configuration, such as
            "entailment", or "" for the second of two classes.
    """

    revision: ClassVar[int] = 2

    template: PairTemplate = field(
        default_factory=lambda: PairTemplate("{question}", "{title}. {text}")
    )
    head: Literal["classes", "pooled"] = "classes"
    scale: Annotated[float, Gt(0)] = 20.0
    separate_layers: Annotated[int, Ge(0)] = 0
    relevant_class: str = ""

    def __post_init__(self) -> None:
        """Validate the head and the number of separate layers.

        The classifier allows no separate layers, because its first token must attend to the
        passage.
        """
        super().__post_init__()
        if self.separate_layers and self.head == "classes":
            raise ConfigError(
                "estimator.engine.separate_layers must be 0 with head=classes; received "
                f"{self.separate_layers}."
            )
        if self.template.suffix:
            raise ConfigError(
                f"estimator.engine.template.suffix={self.template.suffix!r} has no effect on a "
                "cross-encoder. Put the text into template.passage."
            )
        if self.head == "pooled" and (self.relevant_class or self.template.passage_first):
            raise ConfigError(
                "estimator.engine.relevant_class and estimator.engine.template.passage_first need "
                f"head=classes; received {self.relevant_class!r} and "
                f"{self.template.passage_first} with head=pooled."
            )

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        lm = load_encoder(
            self.path, self.loading_dtype, self.device, classes=2 if self.head == "classes" else 0
        )
        model_type, num_layers = lm.model.config.model_type, lm.model.config.num_hidden_layers
        if self.separate_layers and (model_type != "bert" or self.separate_layers > num_layers):
            raise ModelError(
                f"estimator.engine.separate_layers={self.separate_layers} needs a BERT model with "
                f"as many layers or more, but {self.path} is a {model_type} model with "
                f"{num_layers} layers. Set estimator.engine.separate_layers to 0 or, for a BERT "
                f"model, to at most {num_layers}."
            )
        if self.head == "classes":
            from winnow.modeling.first_token import skip_unread_tokens

            skip_unread_tokens(lm.model)
        return lm

    def build_pair_tokenizer(self) -> PairTokenizer:
        """Create a tokenizer for the input [CLS] question [SEP] passage [SEP], or the two texts in
        the reverse order. Between the texts is what the model's tokenizer puts there, which are two
        separators for RoBERTa and XLM-RoBERTa.
        """
        tokenizer = self.lm.tokenizer
        cls_id = (
            tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        )
        sep_id = (
            tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        )
        if cls_id is None or sep_id is None:
            raise ModelError(
                f"The tokenizer of {self.path} has neither [CLS] and [SEP] nor start and end "
                "tokens. Choose another encoder."
            )
        start, end = int(cls_id), int(sep_id)
        middle = (
            [end, start] if self.separate_layers else _read_middle(tokenizer, end)
        )  # a passage that is encoded separately has a start token
        return PairTokenizer(tokenizer, self.template, self.max_length, [start], middle, [end])

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Pad the token ids, and build the attention mask and passage token mask, both (B, T)."""
        import torch

        ids, mask = pad_rows(rows, int(self.lm.tokenizer.pad_token_id))
        num_start_tokens = int(
            self.separate_layers > 0
        )  # the passage's own start token also belongs to the passage
        passage_starts = torch.tensor(list(starts))[:, None] - num_start_tokens
        passage_mask = (torch.arange(ids.shape[1]) >= passage_starts).long() * mask
        device = self.lm.device
        return ids.to(device), mask.to(device), passage_mask.to(device)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute logits (B, classes) or, for the pooled head, last hidden states (B, T, D)."""
        ids, mask, passage_mask = inputs
        if self.separate_layers:
            return self._encode_separately(ids, mask, passage_mask)
        model_inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if getattr(self.lm.model.config, "type_vocab_size", 0) > 1:
            model_inputs["token_type_ids"] = passage_mask
        output = self.lm.model(**model_inputs)
        encoding: torch.Tensor = (
            output.logits if self.head == "classes" else output.last_hidden_state
        )
        return encoding

    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Compute the log-odds from the encoder's output. The probability of other tokens is 0."""
        import torch

        _, mask, passage_mask = inputs
        if self.head == "classes":
            log_odds = self._compare_classes(encoded.float())
        else:
            vectors = encoded.float()
            question_mean, passage_mean = (
                torch.nn.functional.normalize(_compute_masked_mean(vectors, text_mask), dim=-1)
                for text_mask in (mask - passage_mask, passage_mask)
            )
            log_odds = self.scale * (question_mean * passage_mean).sum(dim=-1)
        return PairScores(log_odds, torch.zeros_like(log_odds))

    def _compare_classes(self, logits_BC: torch.Tensor) -> torch.Tensor:
        """Compute the log-odds (B,) of the class of relevant pairs against the other classes C."""
        num_classes = logits_BC.shape[1]
        if num_classes == 1 and not self.relevant_class:
            return logits_BC[:, 0]
        relevant = self._relevant_index if self.relevant_class or num_classes > 2 else 1
        others = [index for index in range(num_classes) if index != relevant]
        return logits_BC[:, relevant] - logits_BC[:, others].logsumexp(dim=-1)

    @cached_property
    def _relevant_index(self) -> int:
        """Return the index of `relevant_class`; raise ModelError if the model has no such class."""
        names = {
            str(name).lower(): int(index)
            for index, name in (self.lm.model.config.id2label or {}).items()
        }
        if self.relevant_class.lower() not in names or len(names) < 2:
            raise ModelError(
                f"{self.path} has the classes {', '.join(names)}, and "
                f"estimator.engine.relevant_class={self.relevant_class!r} must be one of at least "
                "two. Set it to the class of pairs that are relevant."
            )
        return names[self.relevant_class.lower()]

    def _encode_separately(
        self, ids_BT: torch.Tensor, mask_BT: torch.Tensor, passage_BT: torch.Tensor
    ) -> torch.Tensor:
        """Run the layers one by one.

        In the first `separate_layers` of them, a mask keeps question and passage from attending to
        each other.
        """
        import torch

        model: Any = self.lm.model
        indices = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        question_length = (mask_BT - passage_BT).sum(dim=1, keepdim=True)
        positions = (
            indices - passage_BT * question_length
        ) * mask_BT  # positions start at 0 again in the passage
        hidden_states = model.embeddings(input_ids=ids_BT, position_ids=positions)
        joint = mask_BT.bool()[:, None, None, :]
        separate = joint & (passage_BT[:, None, :, None] == passage_BT[:, None, None, :])
        lowest = torch.finfo(torch.bfloat16).min
        masks = [  # additive masks, because eager attention accepts no others
            torch.zeros_like(visible, dtype=hidden_states.dtype).masked_fill(~visible, lowest)
            for visible in (separate, joint)
        ]
        for index, layer in enumerate(model.encoder.layer):
            hidden_states = layer(hidden_states, masks[index >= self.separate_layers])
        encoding: torch.Tensor = hidden_states
        return encoding


def _compute_masked_mean(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Compute the mean vector (B, D) of the tokens that the mask selects."""
    weights = mask_BT.unsqueeze(-1).float()
    return (hidden_BTD * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def _read_middle(tokenizer: PreTrainedTokenizerBase, end: int) -> list[int]:
    """Return the token ids that a tokenizer puts between two texts."""
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in "ab")
    pair = tokenizer("a", "b")["input_ids"]
    middle = pair[1 + len(first) : len(pair) - len(second) - 1]
    is_whole = pair[1:-1] == [*first, *middle, *second]
    return list(middle) if is_whole and middle else [end]
