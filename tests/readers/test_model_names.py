"""Names of models on servers."""

from contextlib import nullcontext

import pytest

from tests.readers.protocol_cases import REQUEST, reply
from winnow.errors import ReaderError
from winnow.readers.openai_protocol import ChatProtocol


@pytest.mark.parametrize(
    ("requested", "served", "is_accepted"),
    [
        ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4", "gpt-4-0613", True),
        ("meta-llama/Llama-3-8B", "Llama-3-8B", True),
        ("qwen", "/models/qwen.gguf", True),
        ("/models/llama", "/models/llama@main", True),
        ("llama-3.1", "llama-3.2", False),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True),
        ("gemini-1.5-pro-latest", "gemini-1.5-pro-002", True),
        ("llama3", "llama3:latest", True),
        ("llama3:latest", "llama3", True),
        ("qwen3:0.6b", "qwen3:70b", False),
        ("qwen3", "qwen3:70b", False),
        ("qwen3:0.6b", "qwen3", False),
        ("ft:gpt-4o-mini:org::a", "ft:gpt-4o-mini:org::b", False),
        ("ft:gpt-4o-mini:org::a", "ft:gpt-4o-mini:org::a", True),
        ("Qwen/Qwen2", "qwen/qwen2", True),
        ("claude-sonnet-4", "claude-sonnet-4-5", False),
        ("gpt-4", "gpt-4-32", False),
        ("org1/m", "org2/m", False),
        ("m", "", True),
        ("m", "n", False),
    ],
)
def test_a_served_model_is_the_requested_one_with_a_date_or_a_path(
    requested: str, served: str, is_accepted: bool
) -> None:
    """Anything else is another model."""
    protocol = ChatProtocol(requested, "http://127.0.0.1/v1")
    with nullcontext() if is_accepted else pytest.raises(ReaderError, match="instead of"):
        assert protocol.parse_reply(reply(model=served), [REQUEST])[0].model == served
