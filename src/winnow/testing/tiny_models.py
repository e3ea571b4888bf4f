"""Tiny models of real architectures with random weights, for tests."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def tiny_tokenizer(texts: Iterable[str]) -> Any:
    """Train a byte-level BPE tokenizer with up to 400 tokens on the texts, and give it a chat template."""
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
        tokenizer_object=backend, **dict(zip(("pad_token", "eos_token", "bos_token"), special_tokens, strict=True))
    )
    tokenizer.chat_template = "{% for m in messages %}<start>{{ m['content'] }}<end>{% endfor %}<start>"
    return tokenizer


def _save(folder: Path, tokenizer: Any, build_model: Callable[[], Any], seed: int) -> Path:
    """Build a model with random weights from the seed, and save it with its tokenizer to a folder."""
    import torch

    torch.manual_seed(seed)
    build_model().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_causal_lm(folder: Path, texts: Iterable[str], *, seed: int = 0, context_length: int = 2048) -> Path:
    """Save a two-layer Llama with random weights and a tokenizer to a folder. Its replies are gibberish, but reproducible."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tiny_tokenizer(texts)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=context_length, eos_token_id=1, bos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return _save(folder, tokenizer, lambda: LlamaForCausalLM(config), seed)


def tiny_t5(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Save a T5 with random weights, two encoder and two decoder layers, and a tokenizer to a folder."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = tiny_tokenizer(texts)
    config = T5Config(  # type: ignore[call-arg]  # every config takes a start token
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return _save(folder, tokenizer, lambda: T5ForConditionalGeneration(config), seed)


def tiny_encoder(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """Save a two-layer BERT with random weights and a tokenizer to a folder."""
    from transformers import BertConfig, BertModel

    tokenizer = tiny_tokenizer(texts)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, pad_token_id=0,
    )  # fmt: skip
    return _save(folder, tokenizer, lambda: BertModel(config), seed)


def tiny_dpr(folder: Path, texts: Iterable[str]) -> tuple[Path, Path]:
    """Save DPR's question and context encoders with random weights to two folders below `folder`; return both folders."""
    import torch
    from transformers import DPRConfig, DPRContextEncoder, DPRQuestionEncoder

    torch.manual_seed(0)
    tokenizer = tiny_tokenizer(texts)
    config = DPRConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, pad_token_id=0,
    )  # fmt: skip
    folders = folder / "question", folder / "context"
    for encoder_folder, encoder in zip(folders, (DPRQuestionEncoder, DPRContextEncoder), strict=True):
        encoder(config).save_pretrained(encoder_folder)
        tokenizer.save_pretrained(encoder_folder)
    return folders
