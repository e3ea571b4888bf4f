"""Continuous batching on a CPU with OpenVINO GenAI: requests join and leave the batch at any token.

The keys and values of a prompt's beginning are reused for later prompts that begin alike, in blocks
of 32 tokens. Prompts that are read in the same step do not reuse each other's, so one that begins
like another waits until the other is read. Replies do not depend on which requests run together,
except by rounding.

Two prompts never run together if one is the beginning of the other, or if they are equal (samples
of one prompt). OpenVINO GenAI 2026.4 lets both write to the last block of the shorter one, which is
not full, and then computes wrong replies.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winnow.errors import ModelError
from winnow.keys import derive_seed
from winnow.modeling.openvino import (
    PRECISION_HINTS,
    build_properties,
    check_precision,
    disable_telemetry,
)
from winnow.readers.prefix_blocks import BlockRecord, has_nested, list_blocks
from winnow.readers.runtime import TokenizedRequest
from winnow.readers.stops import end_reply, find_stop
from winnow.requests import Generate, Generation, Request, Result, Usage

if TYPE_CHECKING:
    from winnow.modeling.text_interface import TextInterface


@dataclass
class _RunningRequest:
    """A request in the pipeline, and what it has generated.

    GenAI's own stop strings are not used: it leaves out the last white space of one, and does not
    find one that ends in two line breaks.

    Attributes:
        item: Request.
        handle: Handle of the pipeline.
        decode: Function that decodes token ids.
        ids: Generated tokens.
        logprobs: Their log-probabilities; empty unless they are requested.
        reason: Why generation ended, as the pipeline says.
        end: Number of tokens up to the end of a stop string, or None without one.
    """

    item: TokenizedRequest
    handle: Any
    decode: Callable[[Sequence[int]], str]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reason: Any = None
    end: int | None = None

    @property
    def is_running(self) -> bool:
        """Return whether the pipeline may generate more."""
        import openvino_genai

        return bool(self.handle.get_status() == openvino_genai.GenerationStatus.RUNNING)

    def read(self) -> bool:
        """Read the tokens of the last step, and return whether there is a stop string.

        Generation is then stopped, and the next step removes the request from the pipeline.
        """
        assert isinstance(self.item.request, Generate)
        while self.handle.can_read():
            (part,) = self.handle.read().values()
            self.ids += part.generated_ids
            self.logprobs += part.generated_log_probs
            self.reason = part.finish_reason
        self.end = find_stop(self.decode, self.ids, self.item.request.decoding.stop)
        if self.end is not None and self.is_running:
            self.handle.stop()
        return self.end is not None


@dataclass
class ContinuousBatch:
    """The running requests of a model that was converted for OpenVINO.

    Args:
        folder: Folder of the converted model; see `winnow.modeling.openvino_conversions`.
        text: Tokenizer and limits of the model.
        dtype: "float32" or "bfloat16".
        cache_gb: Memory for keys and values in GiB.
        max_rows: Maximum number of requests that run together.
        max_tokens: Maximum number of prompt tokens that are read in one step. A longer prompt is
            read alone.
        token_limit: Maximum number of tokens of prompt and reply together.
    """

    folder: Path
    text: TextInterface
    dtype: str
    cache_gb: int
    max_rows: int
    max_tokens: int
    token_limit: int
    _waiting: deque[tuple[TokenizedRequest, list[int]]] = field(default_factory=deque, repr=False)
    """Requests that do not run yet, with the blocks of their prompts."""
    _running: dict[int, _RunningRequest] = field(default_factory=dict, repr=False)
    """Requests in the pipeline by their numbers, with those that the next step removes from it."""
    _record: BlockRecord = field(default_factory=BlockRecord, repr=False)
    _prompts: list[tuple[int, ...]] = field(default_factory=list, repr=False)
    """Prompts of the running requests, sorted. None is the beginning of another one."""
    _counter: int = 0
    _failure: ModelError | None = None
    """Error of a finished request, which is raised after the results of the others were returned.
    """

    def __post_init__(self) -> None:
        """Load the model."""
        self._pipeline = self._load()

    def add(self, item: TokenizedRequest) -> None:
        """Add a request, which joins the running ones at the next step with room for its prompt."""
        self._waiting.append((item, list_blocks(item.ids)))

    def collect(self) -> list[tuple[Request, Result]]:
        """Run the model until at least one request is finished, and return the finished ones.

        Raises:
            ModelError: If OpenVINO GenAI fails, or gives no complete reply to a request.
        """
        results: list[tuple[Request, Result]] = []
        try:
            while (self._running or self._waiting) and not results and self._failure is None:
                self._admit()
                self._pipeline.step()
                results = self._take_finished()
        except RuntimeError as error:
            raise ModelError(
                f"OpenVINO GenAI failed on {self.folder}: {' '.join(str(error).split())[:500]}. "
                "Set reader.engine.runtime=torch."
            ) from error
        if self._failure is not None and not results:
            raise self._failure
        return results

    def _take_finished(self) -> list[tuple[Request, Result]]:
        """Return the results of the finished requests, and keep the error of one that failed."""
        results: list[tuple[Request, Result]] = []
        for number, running in list(self._running.items()):
            is_answered = running.end is not None
            is_stopped = is_answered or running.read()
            try:
                if not is_answered and (is_stopped or not running.is_running):
                    results.append((running.item.request, self._build_result(running)))
            except ModelError as error:
                self._failure = error
            if is_answered or not (is_stopped or running.is_running):
                del self._running[number]
                del self._prompts[bisect_left(self._prompts, tuple(running.item.ids))]
        return results

    def _admit(self) -> None:
        """Start as many waiting requests as one step may read, unless they must wait for others.

        They wait for what the step reads and they can reuse, and for running prompts that begin
        with them or they with these.
        """
        self._record.start_step()
        num_tokens, postponed = 0, list[tuple[TokenizedRequest, list[int]]]()
        while self._waiting and len(self._running) < self.max_rows:
            item, blocks = self._waiting[0]
            new_tokens = self._record.count_new_tokens(blocks, len(item.ids))
            prompt = tuple(item.ids)
            if new_tokens is None or has_nested(self._prompts, prompt):
                postponed.append(self._waiting.popleft())
                continue
            num_tokens += new_tokens
            if num_tokens > max(self.max_tokens, new_tokens):
                break
            self._waiting.popleft()
            self._record.add(blocks)
            insort(self._prompts, prompt)
            handle = self._start(item)
            self._running[self._counter] = _RunningRequest(item, handle, self._decode)
        self._waiting.extendleft(reversed(postponed))

    def _load(self) -> Any:
        """Load the model into a pipeline with a scheduler of its own."""
        disable_telemetry()
        check_precision(self.dtype)
        import openvino_genai

        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = self.cache_gb
        scheduler.max_num_seqs = self.max_rows
        scheduler.dynamic_split_fuse = (
            False  # the log-probability of a token between two parts of a prompt would be missing
        )
        scheduler.max_num_batched_tokens = max(self.max_tokens, self.max_rows, self.token_limit)
        scheduler.enable_prefix_caching = True
        properties = build_properties(self.dtype)
        properties["KV_CACHE_PRECISION"] = PRECISION_HINTS[
            self.dtype
        ]  # otherwise, the cache has 8 bits
        try:
            return openvino_genai.ContinuousBatchingPipeline(
                str(self.folder), scheduler, "CPU", properties
            )
        except RuntimeError as error:
            raise ModelError(
                f"OpenVINO GenAI cannot load {self.folder}: {' '.join(str(error).split())[:500]}. "
                "Set reader.engine.runtime=torch, or remove the folder to convert the model "
                "again if its files are damaged."
            ) from error

    def _start(self, item: TokenizedRequest) -> Any:
        """Add a request to the pipeline and return its handle."""
        import openvino

        self._counter += 1
        assert isinstance(item.request, Generate)
        ids = np.array([item.ids], dtype=np.int64)
        return self._pipeline.add_request(
            self._counter, openvino.Tensor(ids), self._build_config(item.request)
        )

    def _build_config(self, request: Generate) -> Any:
        """Build the settings of generation."""
        import openvino_genai

        config = openvino_genai.GenerationConfig()
        config.stop_token_ids = set(self.text.end_token_ids)
        decoding = request.decoding
        config.max_new_tokens, config.logprobs = decoding.max_new_tokens, int(decoding.logprobs)
        if decoding.temperature > 0:
            config.do_sample, config.temperature, config.top_p = (
                True,
                decoding.temperature,
                decoding.top_p,
            )
            config.rng_seed = derive_seed(request) & 0xFFFFFFFF
        return config

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.text.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _build_result(self, running: _RunningRequest) -> Result:
        """Convert the output of a finished request.

        Raises:
            ModelError: If it was cut by a full cache.
        """
        import openvino_genai

        item, status = running.item, running.handle.get_status()
        if running.end is None and status != openvino_genai.GenerationStatus.FINISHED:
            raise ModelError(
                f"OpenVINO GenAI gave no complete reply to a prompt of {item.length} tokens "
                f"({status}): keys and values need more than {self.cache_gb} GiB. Set "
                f"reader.engine.cache_gb={2 * self.cache_gb}."
            )
        assert isinstance(item.request, Generate)
        ids = running.ids[: running.end]
        ends = (place for place, token_id in enumerate(ids) if token_id in self.text.end_token_ids)
        last = next(ends, None)
        is_cut = last is None and running.reason == openvino_genai.GenerationFinishReason.LENGTH
        decoding = item.request.decoding
        return Generation(
            *end_reply(self._decode(ids[:last]), "length" if is_cut else "stop", decoding.stop),
            Usage(len(item.ids), len(ids)),
            logprobs=tuple(running.logprobs[: running.end]) if decoding.logprobs else None,
        )
