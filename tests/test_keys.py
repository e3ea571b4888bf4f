"""Keys of requests."""

from winnow.keys import request_key
from winnow.records import Decoding, Estimate, Generate, Message, Search


def generate(text: str, decoding: Decoding | None = None, sample: int = 0) -> Generate:
    """A request with one user message."""
    return Generate((Message("user", text),), decoding or Decoding(), sample)


def test_keys_tell_apart_all_that_changes_a_result() -> None:
    """Engine, text, decoding, sample and kind; a greedy seed changes nothing."""
    base = request_key("m", generate("a"))
    others = [
        request_key("n", generate("a")),
        request_key("m", generate("b")),
        request_key("m", generate("a", Decoding(max_new_tokens=5))),
        request_key("m", generate("a", Decoding(temperature=0.7))),
        request_key("m", generate("a", sample=1)),
        request_key("m", Estimate("a", "b")),
        request_key("m", Search("a", 3)),
    ]
    assert len({base, *others}) == 8
    assert request_key("m", generate("a", Decoding(seed=5))) == base
