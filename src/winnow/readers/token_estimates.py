"""Estimates of the tokens of a call, for models whose tokenizers are not available."""

from winnow.requests import Generate, Likelihood, Usage

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 8


def estimate_max_usage(request: Generate | Likelihood, samples: int = 1) -> Usage:
    """Estimate a call's maximum usage: prompt tokens and the maximum reply length per sample."""
    max_reply_tokens = request.decoding.max_new_tokens if isinstance(request, Generate) else 1
    return Usage(estimate_prompt_tokens(request), max_reply_tokens * samples)


def estimate_prompt_tokens(request: Generate | Likelihood) -> int:
    """Estimate the number of tokens of a prompt: tokens of its texts, and eight more per text."""
    texts = [message.content for message in request.messages]
    texts += [
        call.name + call.arguments for message in request.messages for call in message.tool_calls
    ]
    if isinstance(request, Generate):
        texts += [tool.name + tool.description + tool.parameters for tool in request.tools]
    if isinstance(request, Likelihood):
        texts.append(request.continuation)
    return sum(estimate_text_tokens(text) + _TOKENS_PER_MESSAGE for text in texts)


def estimate_text_tokens(text: str) -> int:
    """Estimate a text's token count: one per four ASCII characters, and 1.5 per other character."""
    non_ascii = 0 if text.isascii() else sum(not character.isascii() for character in text)
    return (len(text) - non_ascii) // _CHARACTERS_PER_TOKEN + 3 * non_ascii // 2
