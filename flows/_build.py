"""Builds objects from settings. No other module instantiates the class that a `_target_` names."""

from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig

from flows._schema import check_component
from winnow.errors import ConfigError, WinnowError


def build(node: DictConfig, **objects: Any) -> Any:
    """Build the object that a config node describes.

    Args:
        node: Settings with a `_target_`. They are converted to plain Python values.
        **objects: Further arguments of the class, passed unchanged.

    Raises:
        ConfigError: If the class rejects the settings or does not have one of them.

    """
    check_component(str(node.get("_target_")).rpartition(".")[2], node)
    try:
        return instantiate(node, _partial_=True, _convert_="all")(**objects)
    except InstantiationException as error:
        if isinstance(error.__cause__, WinnowError):
            raise error.__cause__ from None
        raise ConfigError(f"{node.get('_target_')}: {error.__cause__ or error}") from error
    except TypeError as error:
        raise ConfigError(f"{node.get('_target_')} does not take these settings: {error}") from error
