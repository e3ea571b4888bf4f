"""Ledgers of former revisions: calls that were paid for stay reachable."""

import shutil
from pathlib import Path

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan

FILE = Path(__file__).parents[1] / "data" / "ledger_9e2125c.sqlite"
"""Written by the code of revision 9e2125c: a chat model behind a server, six calls of the kinds
below.
"""


def plan() -> Plan[Answer]:
    """Greedy, with other decoding, three samples, and with log-probabilities."""

    def messages(text: str) -> tuple[Message, ...]:
        return Message("system", "Answer briefly."), Message("user", text)

    hot = Decoding(temperature=0.7, top_p=0.9, seed=3)
    replies = yield [
        Generate(messages("who wrote Emma?"), Decoding()),
        Generate(messages("wer schrieb Käthchen?"), Decoding(max_new_tokens=5)),
        *(Generate(messages("name a river"), hot, sample) for sample in range(3)),
        Generate(messages("true or false?"), Decoding(logprobs=True)),
    ]
    assert replies[-1].logprobs == (-0.5,)
    return Answer(",".join(reply.text for reply in replies), unknown=False)


def test_a_ledger_of_revision_9e2125c_is_replayed_without_a_call(tmp_path: Path) -> None:
    """Nothing is migrated, because identities of servers and keys of generations have not changed
    since.

    A migration could not be made either: a row holds the key, which is a digest of the request, and
    not the request.
    """
    path = tmp_path / "l.sqlite"
    shutil.copy(FILE, path)
    unreachable = OpenAIReader("gpt-test", "gpt-test", "http://127.0.0.1:9/v1", server="a-server")
    with SqliteStore(path) as ledger:
        driver = Driver(build_engine_map(unreachable), ledger)
        (outcome,) = driver.run([Job(1, plan())])
        assert len(ledger) == 6
    assert outcome.result.text.split(",")[:2] == ["WHO WROTE EMMA?", "WER SCHRIEB KÄTHCHEN?"]
    assert (driver.stats.ledger_hits, driver.stats.executed) == (6, 0)
    assert outcome.usage[0].tokens_in > 0
