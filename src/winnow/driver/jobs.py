"""Jobs of the driver."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic

from winnow.records import T
from winnow.requests import Plan


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """A plan to run.

    Attributes:
        tag: Value of any type that identifies the plan and is returned with its outcome.
        plan: Plan.
        engines: Name of the set of engines that serves the plan, if the driver has several sets.
    """

    tag: Hashable
    plan: Plan[T]
    engines: Hashable = None
