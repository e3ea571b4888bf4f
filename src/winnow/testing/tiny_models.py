"""Functions that save tiny models of real architectures with random weights, for tests."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def make_tiny_tokenizer(texts: Iterable[str], more_tokens: Sequence[str] = ()) -> Any:
    """Train a byte-level BPE tokenizer with a vocabulary of up to 400 tokens and a chat template.

    Args:
        texts: Texts on which the tokenizer is trained.
        more_tokens: Further special tokens, such as Self-RAG's reflection tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special_tokens = ["<pad>", "<end>", "<start>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        **dict(zip(("pad_token", "eos_token", "bos_token"), special_tokens, strict=True)),
    )
    if more_tokens:
        tokenizer.add_special_tokens({"extra_special_tokens": list(more_tokens)})
    tokenizer.chat_template = (
        "{% for m in messages %}<start>{{ m['content'] }}<end>{% endfor %}<start>"
    )
    return tokenizer


def _save_model(folder: Path, tokenizer: Any, build_model: Callable[[], Any], seed: int) -> Path:
    """Save a model with random weights and its tokenizer to a folder, and return the folder."""
    import torch

    torch.manual_seed(seed)
    build_model().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_causal_lm(
    folder: Path,
    texts: Iterable[str],
    *,
    seed: int = 0,
    context_length: int = 2048,
    more_tokens: Sequence[str] = (),
    tied: bool = False,
) -> Path:
    """Save a two-layer Llama with random weights and a tokenizer, and return the folder.

    The replies of the model are meaningless, but the same seed always gives the same replies.

    Args:
        folder: Folder to write.
        texts: Texts on which the tokenizer is trained.
        seed: Seed of the weights.
        context_length: Context length in tokens.
        more_tokens: Further special tokens of the tokenizer.
        tied: Whether the output layer has the weights of the input embeddings.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tiny_tokenizer(texts, more_tokens)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=context_length,
        eos_token_id=1, bos_token_id=2, pad_token_id=0, tie_word_embeddings=tied,
    )  # fmt: skip
    return _save_model(folder, tokenizer, lambda: LlamaForCausalLM(config), seed)


def make_tiny_t5(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Save a T5 (two layers per stack, random weights) and a tokenizer, and return the folder."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = make_tiny_tokenizer(texts)
    config = T5Config(  # type: ignore[call-arg]  # every config accepts decoder_start_token_id
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=2,
        num_heads=4, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return _save_model(folder, tokenizer, lambda: T5ForConditionalGeneration(config), seed)


def make_tiny_encoder(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Save a two-layer BERT with random weights and a tokenizer, and return the folder."""
    return _save_bert(folder, texts, "BertModel", seed)


def make_tiny_masked_lm(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Save a two-layer BERT with a masked-token head and a tokenizer, and return the folder."""
    return _save_bert(folder, texts, "BertForMaskedLM", seed)


def _save_bert(folder: Path, texts: Iterable[str], class_name: str, seed: int) -> Path:
    """Save a two-layer BERT of a class of transformers with random weights."""
    import transformers

    tokenizer = make_tiny_tokenizer(texts)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=512, pad_token_id=0,
    )  # fmt: skip
    return _save_model(folder, tokenizer, lambda: getattr(transformers, class_name)(config), seed)


def make_tiny_dpr(folder: Path, texts: Iterable[str]) -> tuple[Path, Path]:
    """Save DPR question and context encoders with random weights, and return their folders."""
    import torch
    from transformers import DPRConfig, DPRContextEncoder, DPRQuestionEncoder

    torch.manual_seed(0)
    tokenizer = make_tiny_tokenizer(texts)
    config = DPRConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=512, pad_token_id=0,
    )  # fmt: skip
    folders = folder / "question", folder / "context"
    for encoder_folder, encoder in zip(
        folders, (DPRQuestionEncoder, DPRContextEncoder), strict=True
    ):
        encoder(config).save_pretrained(encoder_folder)
        tokenizer.save_pretrained(encoder_folder)
    return folders
