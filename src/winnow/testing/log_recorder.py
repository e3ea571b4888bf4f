"""A logger that keeps what is logged."""

import logging


class LogRecorder(logging.Logger):
    """A logger that keeps the messages of its warnings and errors, whatever `logging` is set to."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.messages: list[str] = []

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 (logging's name)
        """Return whether a message is a warning or an error."""
        return level >= logging.WARNING

    @property
    def text(self) -> str:
        """The messages, a line each."""
        return "\n".join(self.messages)

    def handle(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())
