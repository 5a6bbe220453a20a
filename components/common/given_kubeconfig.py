"""Kubeconfig that a program passes as an argument: a path, its content, or an output of another resource."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pulumi
import yaml

from trainyard.errors import TrainyardError

__all__ = ["GivenKubeconfig"]


class GivenKubeconfig:
    """A kubeconfig as a file, which hooks and checks read, and as the provider's input.

    The provider receives the content as a secret, because the path of the temporary file differs in each run.

    Parameters
    ----------
    value
        Path or content (text, or the parsed document); or an output with the content.

    Attributes
    ----------
    path
        The file; it exists once the value is known.
    known
        Whether the value is known while the program runs.

    Raises
    ------
    TrainyardError
        The value is neither a file nor a kubeconfig.
    """

    def __init__(self, value: pulumi.Input[Any]) -> None:
        self._value = value
        self._is_file = isinstance(value, str) and "\n" not in value and not value.lstrip().startswith("{")
        self.known = not isinstance(value, pulumi.Output)
        if self._is_file:
            self.path = Path(str(value)).expanduser()
            if not self.path.is_file():
                raise TrainyardError(f"kubeconfig: {self.path} is not a file", fix="pass the path or the content")
            return
        folder = Path(tempfile.mkdtemp(prefix="trainyard-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self.path = folder / "kubeconfig"
        if self.known:
            self._write(value)

    def provider_input(self, check: Callable[[], None], *, after: Any = ()) -> pulumi.Input[str]:
        """Return the provider's argument; if the value is an output, its content after a check of the cluster.

        Parameters
        ----------
        check
            Called when the value is known and the file exists, before the provider is registered.
        after
            Option ``depends_on`` of the provider: the check follows these resources, such as pools of nodes.
        """
        if self._is_file:
            return str(self._value)

        async def checked(value: Any) -> str:
            content = self._write(value)
            if not self.known:
                # Awaited and not part of the output, which would make them dependencies of the provider's property.
                for each in resources:
                    if (resource := await pulumi.Output.from_input(each).future()) is not None:
                        await resource.urn.future()
                check()
            return content

        resources = [after] if isinstance(after, pulumi.Resource) else after if isinstance(after, Sequence) else ()
        return pulumi.Output.secret(self._value).apply(checked)

    def context(self, chosen: str | None) -> pulumi.Output[str]:
        """Return the name of the context: the chosen one, or the current one of the kubeconfig."""
        content = self.path.read_text() if self._is_file else self._value
        return pulumi.Output.unsecret(
            pulumi.Output.from_input(content).apply(lambda value: chosen or _document(value).get("current-context", ""))
        )

    def _write(self, value: Any) -> str:
        document = _document(value)
        content = value if isinstance(value, str) else json.dumps(document)
        self.path.touch(mode=0o600)
        self.path.write_text(content)
        return content


def _document(value: Any) -> dict[str, Any]:
    try:
        document = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        document = None
    if not isinstance(document, dict) or "clusters" not in document:
        # Without its content, which may contain keys.
        raise TrainyardError("kubeconfig: the value is not a kubeconfig", fix="pass a document with clusters and users")
    return document
