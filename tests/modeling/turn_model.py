"""A model whose replies end with another token than its texts, as Gemma's."""

import json
from pathlib import Path

from transformers import AutoTokenizer

from winnow.testing import make_tiny_causal_lm

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def make_turn_model(folder: Path) -> tuple[Path, int]:
    """Save a model with such a template, and return its folder and the id of the end of a turn."""
    path = make_tiny_causal_lm(folder / "lm", ["the cat sat"] * 5, more_tokens=["<end_of_turn>"])
    tokenizer = AutoTokenizer.from_pretrained(path)
    turn = int(tokenizer.convert_tokens_to_ids("<end_of_turn>"))
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(path)
    file = path / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": [1, turn]}))
    return path, turn
