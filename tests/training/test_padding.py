"""Labels and padding of examples."""

from pathlib import Path

from tests.modeling.turn_model import make_turn_model
from tests.training.test_sft import EXAMPLES, TEXTS
from winnow.modeling.chat import tokenize_chat
from winnow.modeling.loading import load_causal_lm
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Message
from winnow.testing import make_tiny_causal_lm
from winnow.training.examples import Example
from winnow.training.padding import LeftPaddingCollator, encode_example
from winnow.training.rollouts import encode_prompts


def test_labels_are_the_reply_alone(tmp_path: Path) -> None:
    """Everything before it, padding included, is -100; rows end together; the last label ends the
    turn.
    """
    folder = make_tiny_causal_lm(tmp_path / "m", TEXTS)
    text = load_causal_lm(str(folder), "float32", "cpu").text
    tokenizer = text.tokenizer
    rows = [encode_example(example, text) for example in EXAMPLES[:3]]
    batch = LeftPaddingCollator(0)(rows)
    for n, row in enumerate(rows):
        labels = batch["labels"][n]
        reply = labels[labels != -100]
        assert len(reply) == row["reply"]
        assert tokenizer.decode(reply[:-1]) == EXAMPLES[n].completion
        assert reply[-1] == tokenizer.eos_token_id
        assert int(batch["attention_mask"][n].sum()) == len(row["input_ids"])


def test_a_reply_ends_as_the_chat_template_ends_it(tmp_path: Path) -> None:
    """Gemma's turns end with another token than its texts."""
    folder, turn = make_turn_model(tmp_path)
    text = load_causal_lm(str(folder), "float32", "cpu").text
    assert encode_example(EXAMPLES[0], text)["input_ids"][-1] == turn


def test_control_tokens_of_passages_are_text(tmp_path: Path) -> None:
    """In examples and in the prompts of rollouts, as the reader reads them."""
    lm = load_causal_lm(str(make_tiny_causal_lm(tmp_path / "m", TEXTS)), "float32", "cpu")
    end = str(lm.tokenizer.eos_token)
    passage = Passage("1", "ChatML", f"It ends each turn with {end} and so on.")
    request = Generate((Message("user", f"{passage.text} Who?"),), Decoding(), passages=(passage,))
    expected = tokenize_chat(lm.tokenizer, request.messages, passages=request.passages)
    assert expected != tokenize_chat(lm.tokenizer, request.messages)
    example = Example("q/cited", request.messages, "Ada", request.passages)
    row = encode_example(example, lm.text)
    assert row["input_ids"][: -row["reply"]] == expected
    assert encode_prompts(lm, [request]) == [expected]
