"""One connection to a local server: calls with several samples, refusals, and questions about the
server.
"""

import asyncio
from collections.abc import Sequence

import pytest

from winnow.readers.dialects import get_dialect
from winnow.readers.openai_connection import OpenAIConnection
from winnow.readers.openai_errors import RetryableError
from winnow.readers.openai_protocol import ChatProtocol
from winnow.readers.pacing import Pacing
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Likelihood, Message, Score, TooLong
from winnow.testing.chat_server import ChatServer

PROMPT = (Message("user", "hello"),)


def call(
    url: str, group: Sequence[Generate | Likelihood], dialect: str = "openai"
) -> Sequence[Generation | Score | TooLong]:
    """Make one call with a connection of its own."""

    async def run() -> Sequence[Generation | Score | TooLong]:
        connection = connect(url, dialect)
        try:
            return await connection.call(group)
        finally:
            await connection.close()
            assert not connection.receiving, "no task waits for a reply any more"

    return asyncio.run(run())


def connect(url: str, dialect: str = "openai") -> OpenAIConnection:
    """A connection with short timeouts."""
    return OpenAIConnection(
        ChatProtocol("m", url),
        Pacing(connect_timeout=2.0, read_timeout=2.0),
        get_dialect(dialect),
        "E",
    )


def test_samples_of_a_prompt_are_one_request() -> None:
    """With as many choices as samples, and the settings of the decoding."""
    server = ChatServer()
    decoding = Decoding(max_new_tokens=5, temperature=0.7, samples=3)
    with server.serve() as url:
        replies = call(url, [Generate(PROMPT, decoding, number) for number in range(3)])
    assert [reply.text for reply in replies if isinstance(reply, Generation)] == ["HELLO"] * 3
    assert server.calls == 1
    assert (server.bodies[0]["n"], server.bodies[0]["temperature"]) == (3, 0.7)


@pytest.mark.parametrize("fault", ["500", "close", "malformed", "stall"])
def test_what_may_succeed_later_is_no_reply(fault: str) -> None:
    """The reader retries, not the connection."""
    server = ChatServer(fault_rule=lambda *_: fault)  # type: ignore[arg-type,return-value]
    with server.serve() as url, pytest.raises(RetryableError):
        call(url, [Generate(PROMPT, Decoding())])
    assert server.received["hello"] == 1


def test_a_prompt_that_is_too_long_is_a_result() -> None:
    """One for each sample, which the driver answers with a shorter prompt."""
    with ChatServer(fault_rule=lambda *_: "too long").serve() as url:
        replies = call(
            url,
            [Generate(PROMPT, Decoding(temperature=1.0, samples=2), number) for number in range(2)],
        )
    assert [type(reply) for reply in replies] == [TooLong, TooLong]


def test_a_likelihood_is_asked_by_the_dialect() -> None:
    """VLLM's endpoints give the log-probabilities of the prompt."""
    with ChatServer().serve() as url:
        (score,) = call(url, [Likelihood(PROMPT, "HELLO")], "vllm")
    assert isinstance(score, Score)
    assert score.value <= 0


def test_a_server_is_asked_for_its_version() -> None:
    """None without a server."""
    with ChatServer(version="0.9").serve() as url:
        assert connect(url, "vllm").read_version() == "0.9"
    assert connect(url, "vllm").read_version() is None
    assert connect(url, "vllm").render(PROMPT) is None
