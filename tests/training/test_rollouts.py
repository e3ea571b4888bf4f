"""Prompts, rewards and replies of reinforcement learning."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.plans import PROMPT
from winnow.errors import ConfigError, WinnowError
from winnow.metrics.base import MeanMetric, Sample, Shown
from winnow.metrics.correctness import F1, ExactMatch
from winnow.modeling.chat import tokenize_chat
from winnow.modeling.loading import load_causal_lm
from winnow.records import Answer, Decoding
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.testing import make_context, make_question, make_tiny_causal_lm
from winnow.training.groups import Group
from winnow.training.ppo import Ppo
from winnow.training.rollouts import (
    RewardedTask,
    build_sample,
    decode_reply,
    encode_prompts,
    generate_replies,
    select_fitting,
)
from winnow.training.trl_methods import Grpo

GROUP = Group(
    make_question("who?", ("Ada Lovelace",)), (make_context(1, "one"), make_context(2, "two"))
)
TASK = RewardedTask(Concatenation(PROMPT, Decoding()), ExactMatch("em", "EM"), [F1("f1", "F1")])


@dataclass(frozen=True)
class Constant(MeanMetric):
    """A metric with the same value for every reply."""

    value: float | None = None

    def score(self, sample: Sample) -> float | None:
        """Return the value."""
        return self.value


def test_what_is_rewarded_is_what_a_sweep_reports() -> None:
    """The strategy makes the prompt and reads the reply; F1 of "Ada" is 2/3."""
    assert TASK.build_request(GROUP).messages[-1].content == "<one>\n<two> Q who?"
    assert TASK.score(GROUP, "Ada Lovelace") == {"reward": 1.0, "f1": 1.0}
    assert TASK.score(GROUP, "Ada") == {"reward": 0.0, "f1": pytest.approx(2 / 3)}
    sample = TASK.build_sample(GROUP, "Ada")
    assert sample.prediction.answer == "Ada"
    assert sample.prediction.passage_ids == ("p1", "p2")
    assert sample.placed == GROUP.contexts
    assert sample.shown == Shown(GROUP.contexts, GROUP.contexts, (GROUP.contexts,))


def test_a_strategy_of_several_requests_has_no_reward() -> None:
    """The message says how many it makes."""
    with pytest.raises(ConfigError, match="received one with 2 requests"):
        replace(TASK, strategy=PostFusion(PROMPT, Decoding())).build_request(GROUP)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_reward_that_is_no_number_is_an_error(value: float | None) -> None:
    """With the names of metric and question, and the reply."""
    task = replace(TASK, reward=Constant("constant", "Constant", value=value))
    with pytest.raises(
        WinnowError,
        match=f"metric constant of a reply to question 'q1' is {value}; the reply is 'Ada'",
    ):
        task.score(GROUP, "Ada")


def test_used_passages_are_those_of_the_answer() -> None:
    """Not those of the prompt."""
    answer = Answer("Ada", unknown=False, used=(GROUP.contexts[1].passage,))
    sample = build_sample(GROUP.question, GROUP.contexts, answer, [])
    assert sample.prediction.used_ids == ("p2",)
    assert sample.shown == Shown((), GROUP.contexts[1:2])


def test_replies_end_at_their_first_end_token(tmp_path: Path) -> None:
    """Greedy replies are the same beside a longer prompt; a cut one has all its tokens."""
    lm = load_causal_lm(
        str(make_tiny_causal_lm(tmp_path / "lm", ["who wrote it? Ada wrote it."])),
        "float32",
        "cpu",
    )
    prompts = encode_prompts(
        lm,
        [
            TASK.build_request(GROUP),
            TASK.build_request(replace(GROUP, contexts=GROUP.contexts[:1])),
        ],
    )
    together = generate_replies(lm, prompts, 8, 0.0)
    assert together == [generate_replies(lm, [prompt], 8, 0.0)[0] for prompt in prompts]
    for reply in together:
        assert not set(reply[:-1]) & set(lm.end_token_ids)
        assert len(reply) == 8 or reply[-1] in lm.end_token_ids
    first = together[0][0]
    lm.model.generation_config.eos_token_id = [first]  # type: ignore[union-attr]
    assert generate_replies(lm, prompts[:1], 8, 0.0) == [[first]]
    assert decode_reply(lm, [lm.tokenizer.eos_token_id]) == ""


@pytest.mark.parametrize(("name", "value"), [("stop", ("\n",)), ("seed", 7), ("top_p", 0.5)])
def test_a_setting_without_an_effect_on_replies_is_refused(name: str, value: object) -> None:
    """Two keys would stand for one training; TRL's methods use top_p."""
    decoding = replace(Decoding(temperature=1.0), **{name: value})
    with pytest.raises(ConfigError, match=rf"decoding\.{name}=.* has no effect"):
        Ppo("base", TASK, decoding)
    if name == "top_p":
        assert Grpo("base", TASK, decoding).decoding.top_p == value
        return
    with pytest.raises(ConfigError, match=rf"decoding\.{name}=.* has no effect"):
        Grpo("base", TASK, decoding)


def test_prompts_that_do_not_fit_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those whose passages have control tokens, too, if a method takes texts; none is an error."""
    folder = make_tiny_causal_lm(tmp_path / "lm", ["who wrote it? Ada wrote it."])
    text = load_causal_lm(str(folder), "float32", "cpu").text
    request = TASK.build_request(GROUP)
    length = len(tokenize_chat(text.tokenizer, request.messages))
    long = replace(GROUP, contexts=(make_context(1, "many words " * 40),))
    limited = replace(text, context_length=length + 5)
    assert select_fitting([GROUP, long], TASK, limited, 5) == [GROUP]
    assert "1 of 2 prompts are left out" in caplog.text
    with pytest.raises(ConfigError, match=r"None of 1 prompts fits .* training\.mix\.max_words"):
        select_fitting([GROUP], TASK, limited, 6)
    spelled = replace(GROUP, contexts=(make_context(1, f"a {text.tokenizer.eos_token} b"),))
    assert select_fitting([spelled], TASK, text, 5) == [spelled]
    assert select_fitting([spelled, GROUP], TASK, text, 5, as_text=True) == [GROUP]
