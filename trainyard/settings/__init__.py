"""Typed settings of stacks."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from trainyard.settings.stack import StackSettings
    from trainyard.settings.stack_loader import load_stack, parse_stack
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "stack": "StackSettings",
            "stack_loader": "load_stack parse_stack",
        },
    )

__all__ = ["StackSettings", "load_stack", "parse_stack"]
