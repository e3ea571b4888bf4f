"""Rejects settings that contain secrets, because settings are written to artifacts and MLflow."""

import os
import re
from collections.abc import Iterable, Mapping

from winnow.errors import ConfigError

_SECRET_VARIABLE = re.compile(r"(^|_)((PG)?PASSWORD|KEY|TOKEN|SECRET|PASSWD|CREDENTIALS?)(_\d+)?$")
"""Names of environment variables that hold secrets."""
_SECRET_VALUE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[^\s/]{12,}")
"""Values that are secrets, unlike words, paths and addresses, which settings may contain."""
_KEY_FORMATS = re.compile(
    r"(?<![\w-])(sk-([\w-]*[-_])?(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{16,}|hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|AKIA[0-9A-Z]{16}|xox[abpr]-[\w-]{20,}|AIza[\w-]{35})"
)
"""API key formats of OpenAI, Anthropic, the Hugging Face hub, GitHub, AWS, Slack and Google."""
_PASSWORD = re.compile(
    r"\w://[^/\s:@?#'\",;]*:[^/\s@?#'\",;]+@|\w://[^\s'\"]*[?&]password=[^&\s]", re.IGNORECASE
)
"""An address with a user name and a password."""


def check_secrets(
    texts: Iterable[tuple[str, str]], environment: Mapping[str, str] = os.environ
) -> None:
    """Check that no setting contains a secret.

    Args:
        texts: Name and text of each setting.
        environment: Environment variables; the values of those whose names suggest a secret must
            not occur in settings.

    Raises:
        ConfigError: If a setting contains a secret. The message names the setting and never shows
            its value.
    """
    secrets = {
        value: name
        for name, value in environment.items()
        if _SECRET_VARIABLE.search(name) and _SECRET_VALUE.fullmatch(value)
    }
    for setting, text in texts:
        if _PASSWORD.search(text):
            raise ConfigError(
                f"{setting} contains an address with a password, which would be written to "
                "artifacts and MLflow. Remove it: MLflow reads MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, PostgreSQL PGPASSWORD, and downloads ~/.netrc."
            )
        variable = next((name for value, name in secrets.items() if value in text), None)
        if variable or _KEY_FORMATS.search(text):
            secret = f"the value of the environment variable {variable}" if variable else "a key"
            raise ConfigError(
                f"{setting} contains {secret}, which would be written to artifacts and MLflow. "
                "Remove it: keys are read from the environment variable that "
                "reader.engine.api_key_variable names (OPENAI_API_KEY by default)."
            )
