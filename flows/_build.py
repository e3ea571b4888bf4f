"""Turns settings into objects, at this one place: `_target_` names the class, `objects` are handed to it as they are."""

from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig

from flows._schema import check_component
from winnow.errors import ConfigError, WinnowError


def build(node: DictConfig, **objects: Any) -> Any:
    """Return the object that a config node describes; no config type reaches it.

    Raises:
        ConfigError: where the class refuses its settings or does not know one of them.

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
