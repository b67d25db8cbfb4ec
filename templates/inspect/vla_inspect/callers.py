"""Finds submodules that are called while the module around them is not: a sharding unit around both would not be gathered yet."""

from types import TracebackType
from typing import Any

from torch import nn


class Callers:
    """Within: notes which modules are being called whenever one is called.

    Args:
        policy: the module whose submodules are watched.
    """

    def __init__(self, policy: nn.Module) -> None:
        self._policy = policy
        self._active: list[nn.Module] = []
        self._called: dict[nn.Module, list[frozenset[nn.Module]]] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> "Callers":
        """Starts watching."""
        for module in self._policy.modules():
            self._handles.append(module.register_forward_pre_hook(self._begins))
            self._handles.append(module.register_forward_hook(self._ends, always_call=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stops watching."""
        for handle in self._handles:
            handle.remove()

    def outside(self, root: str) -> list[str]:
        """Names of the outermost modules with parameters below `root` that were called while `root`, which is called too, was not."""
        around = self._policy.get_submodule(root)
        found: list[str] = []
        for name, module in around.named_modules(prefix=root):
            alone = any(around not in active for active in self._called.get(module, []))
            inside = any(name.startswith(f"{other}.") for other in found)
            if name != root and alone and not inside and next(module.parameters(), None) is not None:
                found.append(name)
        return found if around in self._called else []

    def _begins(self, module: nn.Module, _inputs: Any) -> None:
        self._called.setdefault(module, []).append(frozenset(self._active))
        self._active.append(module)

    def _ends(self, module: nn.Module, _inputs: Any, _output: Any) -> None:
        while self._active and self._active.pop() is not module:
            pass
