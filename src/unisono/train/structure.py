"""Has a model changed since it was wrapped?"""

from __future__ import annotations

from typing import Any


class Structure:
    """The modules and parameters of a torch model, by identity. To compare them takes a microsecond for each."""

    def __init__(self, model: Any) -> None:
        self._modules = [(name, module, self._contents(module)) for name, module in model.named_modules()]

    @staticmethod
    def _contents(module: Any) -> tuple[Any, ...]:
        return (
            [(name, id(parameter), *_facts(parameter)) for name, parameter in module._parameters.items()],
            [(name, id(child)) for name, child in module._modules.items()],
        )

    def difference(self) -> str:
        """The first one that differs, in words; nothing if none does."""
        for path, module, before in self._modules:
            now = self._contents(module)
            if now != before:
                return f"{'.'.join(filter(None, (path, _first(before, now))))}"
        return ""


def _facts(parameter: Any) -> tuple[Any, ...]:
    return () if parameter is None else (parameter.requires_grad, parameter.dtype, parameter.shape, parameter.device)


def _first(before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    """What was added, removed, replaced, frozen or made anew where it is."""
    for were, are in zip(before, now, strict=True):
        old, new = ({entry[0]: entry[1:] for entry in entries} for entries in (were, are))
        for name in {**old, **new}:
            if name not in new:
                return f"{name} was removed"
            if name not in old:
                return f"{name} was added"
            if old[name][0] != new[name][0]:
                return f"{name} was replaced"
            if old[name] != new[name]:
                return _changed(name, old[name], new[name])
    return "changed"


def _changed(name: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    if old[1] != new[1]:
        return f"{name}.requires_grad was set to {new[1]}"
    was, now = (f"{dtype} {tuple(shape)} on {device}" for _, _, dtype, shape, device in (old, new))
    return f"{name} was {was}, and is {now}"
