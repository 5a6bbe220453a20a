"""Kubeconfig that a program passes as an argument: a path, its content, or an output of another resource."""

from __future__ import annotations

import atexit
import inspect
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulumi
import yaml

from trainyard.errors import TrainyardError
from trainyard.kube.kubeconfig_files import files_of, merged, selected


def has_inputs(value: Any) -> bool:
    """Return whether a value is or contains an output or awaitable."""
    return next(inputs_in(value), None) is not None


def inputs_in(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each output and awaitable in a value, its mappings and its lists."""
    if isinstance(value, pulumi.Output) or inspect.isawaitable(value):
        yield path
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from inputs_in(each, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from inputs_in(each, f"{path}[{index}]")


class GivenKubeconfig:
    """A kubeconfig as a file, which hooks and checks read, and as the provider's input.

    The provider receives the content as a secret, because the path of the temporary file differs in each run.

    Parameters
    ----------
    value
        Path, list of paths like ``KUBECONFIG``, or content (text, or the parsed document). Content, and each value in
        the document, may be an output.
    context
        Context in it; None: the current one. If it is an output, it becomes the current one of the file.

    Attributes
    ----------
    path
        The file; it exists once the values are known.
    known
        Whether the values are known while the program runs.
    chosen
        Context in the file; None: the current one.

    Raises
    ------
    TrainyardError
        The value is neither a file nor a kubeconfig.
    """

    def __init__(self, value: pulumi.Input[Any], context: pulumi.Input[str] | None = None) -> None:
        self.chosen = context if isinstance(context, str) else None
        unknown = has_inputs(context)
        self._value = _opened(value, self.chosen, whole=unknown)
        if unknown:
            self._value = pulumi.Output.all(self._value, context).apply(lambda each: _with_context(*each))
        self.known = not has_inputs(self._value)
        if not self.known:
            self._value = pulumi.Output.from_input(self._value)  # an awaitable is awaited once
        if isinstance(self._value, Path):
            self.path = self._value.expanduser()
            return
        folder = Path(tempfile.mkdtemp(prefix="trainyard-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self.path = folder / "kubeconfig"
        if self.known:
            self._write(self._value)

    def provider_input(
        self, check: Callable[[], None], after: Callable[[], Awaitable[None]] | None = None
    ) -> pulumi.Input[str]:
        """Return the provider's argument; if a value is an output, the content after a check of the cluster.

        Parameters
        ----------
        check
            Called when the values are known and the file exists, before the provider is registered.
        after
            Awaited before the check: the resources that precede the provider, such as pools of nodes.
        """
        if isinstance(self._value, Path):
            return str(self._value)

        async def checked(value: Any) -> str:
            with _run_errors():
                content = self._write(value)
            if not self.known:
                # Awaited and not part of the output, which would make them dependencies of the provider's property.
                if after is not None:
                    await after()
                check()
            return content

        return pulumi.Output.secret(self._value).apply(checked)

    def context(self) -> pulumi.Output[str]:
        """Return the name of the context: the chosen one, or the current one of the kubeconfig."""

        def name(value: Any) -> str:
            with _run_errors():
                return self.chosen or str(_document(value).get("current-context", ""))

        content = self.path.read_text() if isinstance(self._value, Path) else self._value
        return pulumi.Output.unsecret(pulumi.Output.from_input(content).apply(name))

    def _write(self, value: Any) -> str:
        document = _document(value)
        try:
            content = value if isinstance(value, str) else json.dumps(document)
        except TypeError:
            raise _invalid() from None
        self.path.touch(mode=0o600)
        self.path.write_text(content)
        return content


def _opened(value: Any, context: str | None, *, whole: bool) -> Any:
    """Return the path of one file that has the context; else the entries of a list of files; else the value.

    Parameters
    ----------
    whole
        Whether any context of the files may be chosen later.
    """
    text = str(value) if isinstance(value, Path) else value
    if not isinstance(text, str) or "\n" in text or text.lstrip().startswith("{"):
        return value
    files = files_of(text)
    if not files[0].is_file():
        raise TrainyardError(f"kubeconfig: {text} is not a file", fix="pass the path or the content")
    if whole:
        return merged(files)
    if len(files) == 1:
        return Path(text) if files[0] == Path(text).expanduser() else files[0]
    chosen = context or merged(files).get("current-context")
    if chosen is None:
        raise TrainyardError(f"kubeconfig: {text} has no current context", fix="pass the argument context")
    document, file = selected(files, chosen)
    return file or document


def _with_context(value: Any, context: str | None) -> dict[str, Any]:
    """Return a kubeconfig whose current context is another one."""
    with _run_errors():
        document = _document(value)
        if context is None:
            return document
        known = [str(each.get("name")) for each in document.get("contexts") or ()]
        if context not in known:
            raise TrainyardError(f"kubeconfig: no context {context!r}", fix=f"use one of {', '.join(known)}")
        return {**document, "current-context": context}


def _document(value: Any) -> dict[str, Any]:
    try:
        document = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        document = None
    if not isinstance(document, dict) or "clusters" not in document:
        raise _invalid()
    return document


def _invalid() -> TrainyardError:
    # Without its content, which may contain keys.
    return TrainyardError("kubeconfig: the value is not a kubeconfig", fix="pass a document with clusters and users")


@contextmanager
def _run_errors() -> Iterator[None]:
    """Let Pulumi print the errors of values that are known after the program, without a traceback."""
    try:
        yield
    except TrainyardError as error:
        raise pulumi.RunError(str(error)) from error
