"""Models from nothing."""

from pathlib import Path

from winnow.modeling.loading import load_seq2seq
from winnow.synthetic.scratch_t5 import ScratchT5, build_word_tokenizer, make_t5


def test_every_word_is_one_piece(tmp_path: Path) -> None:
    """Known words keep their own tokens; strangers are unknown; the folder loads as any T5 does."""
    tokenizer = build_word_tokenizer(["a b true false", "b c"])
    assert tokenizer.convert_ids_to_tokens(tokenizer("a c true z")["input_ids"]) == [
        "a",
        "c",
        "true",
        "<unk>",
    ]
    lm = load_seq2seq(
        str(make_t5(tmp_path / "t5", ["a b"], ScratchT5(32, 64, 1, 2), 1)), "float32", "cpu"
    )
    assert lm.tokenizer.decode(lm.tokenizer("b a")["input_ids"]) == "b a"
    assert lm.model.config.d_model == 32
