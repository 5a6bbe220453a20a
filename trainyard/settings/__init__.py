"""Typed settings of stacks."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    pass
    pass
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "stack": "StackSettings",
            "stack_loader": "load_stack parse_stack",
        },
    )
