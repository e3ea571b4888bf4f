"""A chat server with the OpenAI API for tests of readers and for benchmarks.

The server listens on 127.0.0.1. A function computes its replies, and latency and faults can be
injected. It implements HTTP itself, so that it can close a connection in the middle of a body.

Run it as a separate process with `python -m winnow.testing.chat_server --latency 0.02`. It also
plays the further endpoints of vLLM; its tokens are bytes.
"""

import argparse
import asyncio
import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any, Literal

Fault = Literal[
    "429", "429 after", "500", "503", "close", "malformed", "stall", "empty", "filter",
    "length", "refuse", "bad request", "moderated", "too long", "wait a day", "huge",
    "compressed", "other model",
]  # fmt: skip
"""Names of the faults.

Those in `_ERROR_RESPONSES` are HTTP errors, and those in `_FINISH_REASONS` are replies with another
finish reason. The others break the connection ("close", "stall"), the body ("malformed", "huge",
"compressed") or the reply ("empty", "other model").
"""
FaultRule = Callable[[str, int], Fault | None]
"""Function that maps a prompt and its arrival count (from 1) to a fault or None (normal reply)."""

_FINISH_REASONS = {"filter": "content_filter", "length": "length"}
_ERROR_RESPONSES: dict[str, tuple[int, str, dict[str, str]]] = {
    "429": (429, "rate_limit_exceeded", {}),
    "429 after": (429, "rate_limit_exceeded", {"Retry-After": "0.05"}),
    "500": (500, "server_error", {}),
    "503": (503, "overloaded", {}),
    "refuse": (401, "invalid_api_key", {}),
    "bad request": (400, "invalid_request_error", {}),
    "moderated": (400, "invalid_prompt", {}),
    "too long": (400, "context_length_exceeded", {}),
    "wait a day": (429, "rate_limit_exceeded", {"Retry-After": "86400"}),
}
"""Status, error code and additional headers of each fault that is an HTTP error."""


@dataclass
class ChatServer:
    """A server of /v1/chat/completions, /v1/files, /v1/batches and vLLM and llama-server endpoints.

    Attributes:
        reply: Function that returns the reply to a prompt, the text of the last message: a text, or
            a message's fields.
        latency: Seconds before each reply.
        fault_rule: Function that chooses the fault of a prompt.
        extra_latency: Function that returns the additional seconds before the reply to a prompt.
        max_choices: Maximum number of choices in a reply, even if the request asks for more by `n`.
        version: Version that the server reports.
        num_polls: Number of times that a batch is reported as "in_progress" before it is completed.
        max_queued: Number of requests that the queue of batches has room for. A batch with more
            fails.
        received: Number of times that each prompt arrived.
        answered: Number of complete replies to each prompt.
        authorization_headers: Authorization headers of all requests so far.
        calls: Number of chat calls so far.
        bodies: Bodies of all chat calls so far.
        max_concurrency: Largest number of chat calls so far that were served at the same time.
    """

    reply: Callable[[str], str | Mapping[str, Any]] = str.upper
    latency: float = 0.0
    fault_rule: FaultRule = lambda _prompt, _time: None
    extra_latency: Callable[[str], float] = lambda _prompt: 0.0
    max_choices: int = 1000
    version: str = "1.2.3"
    num_polls: int = 1
    max_queued: int = 1_000_000
    received: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    authorization_headers: set[str] = field(default_factory=set)
    calls: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    max_concurrency: int = 0
    _concurrent: int = 0
    _files: dict[str, bytes] = field(default_factory=dict)
    _batches: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Run the server in a separate thread while the context is open, and yield its base URL."""
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        server = asyncio.run_coroutine_threadsafe(self.start(), loop).result()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            asyncio.run_coroutine_threadsafe(self._stop(server), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    async def start(self, port: int = 0) -> asyncio.Server:
        """Start the server on a port of 127.0.0.1. Port 0 chooses a free port."""
        return await asyncio.start_server(self._handle_connection, "127.0.0.1", port, backlog=512)

    async def _stop(self, server: asyncio.Server) -> None:
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Respond to the requests of a connection until either side closes it."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request_line, _, header_text = head.decode("latin-1").partition("\r\n")
                header_fields = [line.partition(":") for line in header_text.splitlines() if line]
                headers = {name.strip().lower(): value.strip() for name, _, value in header_fields}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.authorization_headers.add(headers.get("authorization", ""))
                method, path, _ = request_line.split(" ")
                if not await self._serve(writer, method, path.partition("?")[0], headers, body):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _serve(
        self,
        writer: asyncio.StreamWriter,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
    ) -> bool:
        """Respond to one request, and return whether the connection stays open."""
        if path == "/v1/chat/completions":
            return await self._serve_chat(writer, json.loads(body))
        if path == "/v1/files":
            multipart: Any = message_from_bytes(
                b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + body
            )
            content = next(
                part.get_payload(decode=True)
                for part in multipart.get_payload()
                if part.get_filename()
            )
            self._files[f"file-{len(self._files)}"] = content
            return self._send(writer, 200, {"id": f"file-{len(self._files) - 1}", "object": "file"})
        if path == "/v1/batches" and method == "POST":
            return self._send(writer, 200, self._create_batch(json.loads(body)))
        if path == "/v1/batches":
            return self._send(
                writer,
                200,
                {"object": "list", "data": list(self._batches.values()), "has_more": False},
            )
        if path.startswith("/v1/batches/"):
            return self._send(writer, 200, self._poll_batch(path.rpartition("/")[2]))
        if path.startswith("/v1/files/"):
            return self._send(writer, 200, self._files[path.split("/")[3]])
        if (reply := self._answer_dialect(path, json.loads(body or b"{}"))) is not None:
            return self._send(writer, 200, reply)
        return self._send(
            writer, 404, {"error": {"message": f"The path {path} does not exist on this server."}}
        )

    def _answer_dialect(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply of a vLLM or llama-server endpoint, or None for any other path."""
        if path in ("/health", "/version"):
            return {"version": self.version}
        if path == "/props":
            return {"build_info": self.version}
        if path == "/apply-template":
            return {"prompt": render_messages(body["messages"])}
        if path == "/tokenize":
            text = body["prompt"] if "prompt" in body else render_messages(body["messages"])
            return {"tokens": list(text.encode())}
        if path == "/detokenize":
            return {"prompt": bytes(body["tokens"]).decode()}
        if path == "/v1/completions":
            self.calls += 1
            entries = [
                {str(token): {"logprob": get_token_logprob(token)}} for token in body["prompt"]
            ]
            return {"choices": [{"text": "", "prompt_logprobs": [None, *entries[1:]]}]}
        return None

    async def _serve_chat(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        """Answer a chat request after the latency, and return whether the connection stays open."""
        prompt = body["messages"][-1]["content"]
        self.calls += 1
        self.bodies.append(body)
        self.received[prompt] += 1
        self._concurrent += 1
        self.max_concurrency = max(self.max_concurrency, self._concurrent)
        try:
            await asyncio.sleep(self.latency + self.extra_latency(prompt))
            fault = self.fault_rule(prompt, self.received[prompt])
            if fault in _ERROR_RESPONSES:
                status, code, headers = _ERROR_RESPONSES[fault]
                keys = " ".join(
                    self.authorization_headers
                )  # servers repeat them, but they must not appear in our errors
                message = f"{code} ({keys})"
                return self._send(
                    writer, status, {"error": {"message": message, "code": code}}, headers
                )
            if fault == "malformed":
                return self._send(writer, 200, b'{"choices": [{"message"')
            if fault == "huge":
                return self._send(writer, 200, b" " * 2**27)
            if fault == "compressed":
                return self._send(
                    writer, 200, gzip.compress(bytes(2**27)), {"Content-Encoding": "gzip"}
                )
            if fault == "close":
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:"
                    b" 1000\r\n\r\n{"
                )
                await writer.drain()
                return False
            if fault == "stall":
                await asyncio.sleep(3600)
            self.answered[prompt] += 1
            return self._send(writer, 200, self.completion(body, fault))
        finally:
            self._concurrent -= 1

    def completion(self, body: dict[str, Any], fault: str | None = None) -> dict[str, Any]:
        """Build the body of the response to a chat request.

        Args:
            body: Body of the request.
            fault: Fault that changes the reply, or None for a normal reply.
        """
        prompt = body["messages"][-1]["content"]
        num_choices = 0 if fault == "empty" else min(self.max_choices, body.get("n", 1))
        reply = "" if fault == "filter" else self.reply(prompt)
        fields = {"content": reply or None} if isinstance(reply, str) else reply
        finish = _FINISH_REASONS.get(
            fault or "", "tool_calls" if fields.get("tool_calls") else "stop"
        )
        logprobs = {"content": [{"token": "x", "logprob": -0.5}]} if body.get("logprobs") else None
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", **fields},
                "finish_reason": finish,
                "logprobs": logprobs,
            }
            for index in range(num_choices)
        ]
        num_words = len(str(fields["content"] or "").split())
        usage = {
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": num_choices * num_words,
        }
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "other" if fault == "other model" else body["model"],
            "choices": choices,
            "usage": usage,
        }

    def _create_batch(self, body: dict[str, Any]) -> dict[str, Any]:
        """Store a new batch and return it."""
        batch = {
            "id": f"batch-{len(self._batches)}", "object": "batch", "endpoint": body["endpoint"],
            "status": "in_progress", "input_file_id": body["input_file_id"],
            "completion_window": "24h", "created_at": 0, "metadata": body.get("metadata"),
            "polls": self.num_polls,
        }  # fmt: skip
        if len(self._files[body["input_file_id"]].splitlines()) > self.max_queued:
            error = {
                "code": "token_limit_exceeded",
                "message": "Enqueued token limit reached. Please try again.",
            }
            batch |= {"status": "failed", "errors": {"object": "list", "data": [error]}}
        self._batches[batch["id"]] = batch
        return batch

    def _poll_batch(self, batch_id: str) -> dict[str, Any]:
        """Return a batch. Its requests are answered after `polls` reports of "in_progress"."""
        batch = self._batches[batch_id]
        batch["polls"] -= 1
        if batch["polls"] < 0 and batch["status"] == "in_progress":
            results = [
                self._build_batch_result(json.loads(line))
                for line in self._files[batch["input_file_id"]].splitlines()
            ]
            self._files[f"{batch_id}-out"] = "\n".join(
                json.dumps(result) for result in results if result
            ).encode()
            batch |= {"status": "completed", "output_file_id": f"{batch_id}-out"}
        return batch

    def _build_batch_result(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Build the result of one request of a batch, or return None if its fault is "stall"."""
        prompt = row["body"]["messages"][-1]["content"]
        self.received[prompt] += 1
        fault = self.fault_rule(prompt, self.received[prompt])
        if fault == "stall":
            return None
        if fault in _ERROR_RESPONSES:
            status, code, _ = _ERROR_RESPONSES[fault]
            return {
                "custom_id": row["custom_id"],
                "response": {"status_code": status, "body": {"error": {"code": code}}},
            }
        self.answered[prompt] += 1
        return {
            "custom_id": row["custom_id"],
            "response": {"status_code": 200, "body": self.completion(row["body"], fault)},
            "error": None,
        }

    def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        body: Any,
        headers: dict[str, str] | None = None,
    ) -> bool:
        """Send a response (bytes or JSON), and return True because the connection stays open."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"HTTP/1.1 {status} X",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        return True


def render_messages(messages: Sequence[Mapping[str, str]]) -> str:
    """Render messages by the chat template of the server."""
    return (
        "".join(f"<{message['role']}>{message['content']}" for message in messages) + "<assistant>"
    )


def get_token_logprob(token: int) -> float:
    """Return the log-probability that the server reports for a token of a prompt."""
    return -(token % 7) / 10


async def _run_server(latency: float, port: int, delay: float) -> None:
    """Start a server that always gives the same answer, print its base URL, and serve forever."""
    await asyncio.sleep(delay)
    server = await ChatServer(reply=lambda _: "an answer", latency=latency).start(port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument(
        "--port", type=int, default=0, help="port of 127.0.0.1; 0 chooses a free one"
    )
    parser.add_argument(
        "--delay", type=float, default=0.0, help="seconds before the server listens"
    )
    arguments = parser.parse_args()
    asyncio.run(_run_server(arguments.latency, arguments.port, arguments.delay))
