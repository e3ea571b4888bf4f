"""What servers offer beyond the chat protocol, against a server on this machine that plays vLLM and
llama-server.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError, ReaderError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood, Message, Plan, Score, Usage
from winnow.testing.chat_server import ChatServer, get_token_logprob, render_messages

FAST = Pacing(
    initial_wait=0.01, max_wait=0.02, read_timeout=2.0, connect_timeout=2.0, max_attempts=2
)
MESSAGES = (Message("system", "Answer."), Message("user", "Où?"))
PROMPT = render_messages(
    [{"role": message.role, "content": message.content} for message in MESSAGES]
)


def ask(*requests: Likelihood | Generate) -> Plan[list[object]]:
    return (yield list(requests))


def run(reader: OpenAIReader, folder: Path, plan: Plan[list[object]]) -> list[object]:
    """Run a plan with a ledger."""
    with SqliteStore(folder / "l.sqlite") as ledger:
        try:
            (outcome,) = Driver(build_engine_map(reader), ledger).run([Job(0, plan)])
        finally:
            reader.close()
    return outcome.result


def test_vllm_scores_the_continuation_only(tmp_path: Path) -> None:
    """The sum is over the tokens of the continuation and of the end token if that is included;
    prompts are not scored.
    """
    with ChatServer().serve() as url:
        reader = OpenAIReader("m", "m", url, dialect="vllm", end_token="$", pacing=FAST)
        with_end, without = run(
            reader,
            tmp_path,
            ask(Likelihood(MESSAGES, "là"), Likelihood(MESSAGES, "là", include_eos=False)),
        )
    for result, text in ((with_end, "là$"), (without, "là")):
        assert isinstance(result, Score)
        assert result.value == pytest.approx(sum(map(get_token_logprob, text.encode())))
        assert result.usage.tokens_in == len((PROMPT + text).encode())


def test_generations_and_likelihoods_share_a_reader(tmp_path: Path) -> None:
    """A likelihood counts its prompt as usage and costs no reply."""
    with ChatServer().serve() as url:
        reader = OpenAIReader("m", "m", url, dialect="vllm", pacing=FAST)
        reply, score = run(
            reader,
            tmp_path,
            ask(Generate(MESSAGES, Decoding()), Likelihood(MESSAGES, "x", include_eos=False)),
        )
        assert reply.text == "OÙ?"  # type: ignore[attr-defined]
        assert score.usage == Usage(len(PROMPT.encode()) + 1)  # type: ignore[attr-defined]


BEGUN = (*MESSAGES, Message("assistant", "Là"))


@dataclass
class RecordingServer(ChatServer):
    """Keeps the bodies of the requests."""

    def _answer_dialect(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        self.bodies += [body] if "messages" in body else []
        return super()._answer_dialect(path, body)


def test_a_reply_that_the_prompt_begins_is_continued(tmp_path: Path) -> None:
    """By fields that vLLM has for it, in replies and likelihoods; other prompts are sent without
    them.
    """
    server = RecordingServer()
    with server.serve() as url:
        for request in (
            Generate(BEGUN, Decoding()),
            Likelihood(BEGUN, "x", include_eos=False),
            Generate(MESSAGES, Decoding()),
        ):
            run(OpenAIReader("m", "m", url, dialect="vllm", pacing=FAST), tmp_path, ask(request))
    *begun, other = [
        {name: value for name, value in body.items() if "final" in name or "prompt" in name}
        for body in server.bodies
    ]
    assert begun == [{"add_generation_prompt": False, "continue_final_message": True}] * 2
    assert other == {}


@pytest.mark.parametrize("dialect", ["openai", "llama.cpp", "transformers"])
def test_a_begun_reply_is_refused_where_it_would_be_taken_for_a_finished_one(
    tmp_path: Path, dialect: str
) -> None:
    """Before anything is sent, by batches too."""
    server = ChatServer()
    with server.serve() as url:
        with pytest.raises(ConfigError, match="the prompt begins the reply"):
            run(
                OpenAIReader("m", "m", url, dialect=dialect, pacing=FAST),
                tmp_path,
                ask(Generate(BEGUN, Decoding())),
            )
        batch = OpenAIBatchReader("m", "m", url, state=str(tmp_path))
        assert "the prompt begins the reply" in str(
            batch.explain_refusal(Generate(BEGUN, Decoding()))
        )
    assert not server.calls


def test_a_likelihood_that_cannot_be_computed_is_refused(tmp_path: Path) -> None:
    """By a server without them, and where the end of the reply is to be scored and nobody says what
    it is.
    """
    with ChatServer().serve() as url:
        with pytest.raises(ConfigError, match="end_token"):
            run(
                OpenAIReader("m", "m", url, dialect="vllm"),
                tmp_path,
                ask(Likelihood(MESSAGES, "x")),
            )
        for end_token in ("<e>", ""):
            two = OpenAIReader("m", "m", url, dialect="vllm", end_token=end_token, pacing=FAST)
            with pytest.raises((ReaderError, ConfigError), match="end_token"):
                run(two, tmp_path, ask(Likelihood(MESSAGES, "x")))
        with pytest.raises(
            ConfigError, match=r"do not take reader.engine.extra; received {'a': 1}"
        ):
            run(
                OpenAIReader("m", "m", url, dialect="vllm", extra={"a": 1}),
                tmp_path,
                ask(Likelihood(MESSAGES, "x", include_eos=False)),
            )
        sampled = Generate(MESSAGES, Decoding(temperature=1.0))
        with pytest.raises(ConfigError, match="ignore temperatures"):
            run(OpenAIReader("m", "m", url, dialect="transformers"), tmp_path, ask(sampled))
        for dialect in ("openai", "llama.cpp"):
            assert OpenAIReader("m", "m", url, dialect=dialect).serves == (Generate,)
        with pytest.raises(
            ConfigError, match=r"openai, vllm, llama.cpp, transformers; received 'ollama'"
        ):
            OpenAIReader("m", "m", url, dialect="ollama")


def test_log_probabilities_of_other_tokens_are_never_a_likelihood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few, none, other tokens, not a number: an error, and nothing is stored."""
    answer = ChatServer._answer_dialect
    for entries in ([None], None, [None, *[{"1": {"logprob": -1.0}}] * 200], "NaN", "-9999"):

        def reply(
            self: ChatServer, path: str, body: dict[str, object], entries: object = entries
        ) -> object:
            if path != "/v1/completions":
                return answer(self, path, body)
            count = len(body["prompt"])  # type: ignore[arg-type]
            value = float(entries) if isinstance(entries, str) else 0.0
            nan = [None, *({str(token): {"logprob": value}} for token in body["prompt"][1:])]  # type: ignore[index]
            cut = entries[:count] if isinstance(entries, list) else entries
            return {"choices": [{"prompt_logprobs": nan if isinstance(entries, str) else cut}]}

        with monkeypatch.context() as patch, ChatServer().serve() as url:
            patch.setattr(ChatServer, "_answer_dialect", reply)
            reader = OpenAIReader("m", "m", url, dialect="vllm", pacing=FAST)
            with pytest.raises(ReaderError, match=r"log-probabilit|does not follow the dialect"):
                run(reader, tmp_path, ask(Likelihood(MESSAGES, "xyz", include_eos=False)))
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            assert len(ledger) == 0


def test_the_server_renders_the_prompt() -> None:
    """Each dialect in its own way; a server that is not there or cannot renders nothing."""
    request = Generate(MESSAGES, Decoding())
    with ChatServer().serve() as url:
        for dialect in ("vllm", "llama.cpp"):
            assert OpenAIReader("m", "m", url, dialect=dialect).render_prompt(request) == PROMPT
        assert OpenAIReader("m", "m", url).render_prompt(request) is None
    assert OpenAIReader("m", "m", url, dialect="vllm").render_prompt(request) is None


def test_another_version_of_a_server_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The version is part of the identity if it is set; a version that is not set is logged."""
    with ChatServer(version="0.11").serve() as url:
        for dialect in ("vllm", "llama.cpp"):
            stale = OpenAIReader("m", "m", url, dialect=dialect, version="0.10")
            with pytest.raises(
                ConfigError, match=r"has version 0.11, but reader.engine.version=0.10"
            ):
                run(stale, tmp_path, ask(Generate(MESSAGES, Decoding())))
        for dialect in ("openai", "transformers"):
            with pytest.raises(ConfigError, match="cannot be checked"):
                OpenAIReader("m", "m", url, dialect=dialect, version="0.11")
        right = OpenAIReader("m", "m", url, dialect="vllm", version="0.11")
        assert right.identity != OpenAIReader("m", "m", url, dialect="vllm").identity
        assert "0.11" in right.identity
        run(right, tmp_path, ask(Generate(MESSAGES, Decoding())))
        run(
            OpenAIReader("m", "m", url, dialect="vllm"),
            tmp_path,
            ask(Generate(MESSAGES, Decoding(5))),
        )
        assert "set reader.engine.version=0.11, which makes new calls" in caplog.text


def test_a_server_that_reports_no_version_is_not_taken_for_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is another model scored in place of the requested one."""
    answer = ChatServer._answer_dialect
    monkeypatch.setattr(
        ChatServer,
        "_answer_dialect",
        lambda self, path, body: None if path == "/version" else answer(self, path, body),
    )
    with (
        ChatServer().serve() as url,
        pytest.raises(ReaderError, match=r"does not report that it has version 0.11"),
    ):
        run(
            OpenAIReader("m", "m", url, dialect="vllm", version="0.11"),
            tmp_path,
            ask(Generate(MESSAGES, Decoding())),
        )

    def other_model(self: ChatServer, path: str, body: dict[str, object]) -> object:
        reply = answer(self, path, body)
        return {**reply, "model": "other"} if path == "/v1/completions" and reply else reply

    monkeypatch.setattr(ChatServer, "_answer_dialect", other_model)
    with (
        ChatServer().serve() as url,
        pytest.raises(ReaderError, match="answered with the model 'other' instead of 'm'"),
    ):
        run(
            OpenAIReader("m", "m", url, dialect="vllm"),
            tmp_path,
            ask(Likelihood(MESSAGES, "x", include_eos=False)),
        )
