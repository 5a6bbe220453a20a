"""Runs an example against Pulumi's mock monitor, as a program of its own, and prints what it registered as JSON.

Run by path in an environment with the wheel; the clone is not on the import path.
"""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockMonitor, MockResourceArgs, Mocks, set_mocks


class _Echo(Mocks):
    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: Any) -> dict[str, Any]:
        return {}


class _Monitor(MockMonitor):
    def __init__(self) -> None:
        super().__init__(_Echo())
        self.registered: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, Any] = {}

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        response = super().RegisterResource(request)
        self.registered[response.urn] = {
            "type": request.type,
            "name": request.name,
            "parent": request.parent,
            "dependencies": sorted(request.dependencies),
            "provider": request.provider,
        }
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        outputs = pulumi.runtime.rpc.deserialize_properties(request.outputs)
        self.outputs[request.urn] = {key: value for key, value in outputs.items() if isinstance(value, list | str)}
        return super().RegisterResourceOutputs(request)


class _Callbacks:
    def register_resource_hook(self, hook: pulumi.ResourceHook) -> None:
        pass


def main(folder: Path, config: dict[str, str]) -> None:
    """Preview one program."""
    monitor = _Monitor()
    set_mocks(_Echo(), project="example", stack="test", preview=True, monitor=monitor)
    pulumi.runtime.settings.SETTINGS.callbacks = _Callbacks()
    pulumi.runtime.set_all_config({f"example:{key}": value for key, value in config.items()})
    pulumi.runtime.test(lambda: runpy.run_path(str(folder), run_name="__main__"))()
    clone = importlib.util.find_spec("components") is not None
    print(json.dumps({"resources": monitor.registered, "outputs": monitor.outputs, "clone": clone}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
