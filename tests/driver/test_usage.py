"""What plans use: tokens, replies that were cut or empty, reasoning."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from tests.plans import ask, run
from winnow.driver.jobs import Job
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan, Request, Result, TooLong
from winnow.testing import ScriptedReader


class Cutting(ScriptedReader):
    """Ends every reply to a prompt with "long" at max_new_tokens."""

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return the replies with the reason for their end."""
        return [
            (
                request,
                structs.replace(
                    result, finish="length" if "long" in request.messages[0].content else "stop"
                ),
            )  # type: ignore[union-attr, arg-type]
            for request, result in super().collect(timeout)
        ]


def test_cut_replies_are_counted_by_role_and_in_replays(tmp_path: Path) -> None:
    """Two of three of the reader, none of the judge; the ledger keeps the reason."""

    def plan() -> Plan[Answer]:
        texts = [
            ("long 1", "reader"),
            ("long 2", "reader"),
            ("short", "reader"),
            ("short", "judge"),
        ]
        yield [Generate((Message("user", text),), Decoding(), role=role) for text, role in texts]
        return Answer("", unknown=True)

    for _ in range(2):
        outcomes, _ = run(tmp_path, [Job(1, plan())], Cutting(), roles=("reader", "judge"))
        assert [(part.role, part.calls, part.cut) for part in outcomes[1].usage] == [
            ("reader", 3, 2),
            ("judge", 1, 0),
        ]


def test_a_reply_of_white_space_is_counted_as_empty(tmp_path: Path) -> None:
    """As one without any character is."""
    for reply, num_empty in (("", 1), (" \n", 1), ("x", 0)):
        (outcome,) = run(
            tmp_path / str(len(reply)),
            [Job(1, ask(["a"]))],
            ScriptedReader(lambda _, text=reply: text),
        )[0].values()
        assert outcome.usage[0].empty == num_empty


def test_a_plan_counts_the_tokens_of_its_replies(tmp_path: Path) -> None:
    """Those that were read and those that were written, of each role, also in a replay."""

    def plan() -> Plan[Answer]:
        texts = [("one two three", "reader"), ("four", "reader"), ("five six", "judge")]
        yield [Generate((Message("user", text),), Decoding(), role=role) for text, role in texts]
        return Answer("", unknown=True)

    for _ in range(2):
        outcomes, _ = run(
            tmp_path,
            [Job(1, plan())],
            ScriptedReader(lambda _: "a b c d e"),
            roles=("reader", "judge"),
        )
        used = [
            (part.role, part.calls, part.tokens_in, part.tokens_out) for part in outcomes[1].usage
        ]
        assert used == [("reader", 2, 4, 10), ("judge", 1, 2, 5)]


class Reasoning(ScriptedReader):
    """A reader whose replies have three tokens of reasoning before them."""

    def collect(self, timeout: float) -> list[tuple[Request, Result | TooLong]]:
        """Return the replies with the tokens of their reasoning."""
        return [
            (
                request,
                structs.replace(result, usage=structs.replace(result.usage, tokens_reasoning=3)),
            )  # type: ignore[union-attr, arg-type]
            for request, result in super().collect(timeout)
        ]


def test_a_plan_counts_the_tokens_of_reasoning_by_role(tmp_path: Path) -> None:
    """Of each call, also in a replay."""

    def plan() -> Plan[Answer]:
        yield [Generate((Message("user", text),), Decoding()) for text in ("one", "two")]
        return Answer("", unknown=True)

    for _ in range(2):
        outcomes, _ = run(tmp_path, [Job(1, plan())], Reasoning(lambda _: "a b c d e"))
        assert [(part.tokens_out, part.tokens_reasoning) for part in outcomes[1].usage] == [(10, 6)]
