"""Readers of a tiny model, and what they serve."""

from collections.abc import Sequence
from pathlib import Path

from winnow.readers.local import LocalReader
from winnow.readers.openvino_runtime import OpenVinoRuntime
from winnow.records import Decoding
from winnow.requests import Generate, Message, Request, Result

TEXTS = [f"The quick brown fox number {n} " * (1 + n % 4) for n in range(9)]


CONTINUATIONS = ("The", "The quick", "The quick brown fox jumps over the lazy dog number 7")


def open_reader(
    folder: Path, converted: Path, runtime: str = "openvino", **settings: object
) -> LocalReader:
    return LocalReader(
        str(folder), "tiny", "float32", runtime=runtime, converted=str(converted), **settings
    )  # type: ignore[arg-type]


def get_runtime(reader: LocalReader) -> OpenVinoRuntime:
    """Return what OpenVINO runs for a reader."""
    assert isinstance(reader.model_runtime, OpenVinoRuntime)
    return reader.model_runtime


def serve(reader: LocalReader, requests: Sequence[Request]) -> dict[Request, Result]:
    """Submit all requests and collect until nothing is left."""
    reader.submit(requests)
    results: dict[Request, Result] = {}
    while done := reader.collect(60.0):
        results.update(done)
    return results


def prompts(decoding: Decoding) -> list[Generate]:
    return [Generate((Message("user", text),), decoding) for text in TEXTS]
