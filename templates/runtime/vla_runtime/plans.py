"""Compares the plan of a run with that of the checkpoint it resumes from (`resume_contract.json` says what may differ)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .errors import UserError

_CONTRACT = Path(__file__).with_name("resume_contract.json")
_ABSENT = "(absent)"
_SHOWN = 20


@dataclass(frozen=True)
class Difference:
    """A value of the plan that is not the checkpoint's.

    Attributes:
        path: dotted, below `pipeline`; items of lists go by their name where they have one: `modules.vision.lr`.
        before: the checkpoint's value.
        now: the plan's value.
        why: why the contract does not allow it.
    """

    path: str
    before: Any
    now: Any
    why: str


def compare(before: Mapping[str, Any], now: Mapping[str, Any], accepted: Sequence[str]) -> list[Difference]:
    """What differs and may not.

    Args:
        before: the checkpoint's `pipeline`.
        now: this plan's `pipeline`.
        accepted: paths that the user accepts by name (`--allow-change`); each covers what lies below it.

    Raises:
        UserError: an accepted path names nothing that differs.
    """
    rules = [(rule["path"], rule["rule"]) for rule in json.loads(_CONTRACT.read_text(encoding="utf-8"))["allowed"]]
    old, new = _leaves(before), _leaves(now)
    changed = [
        path for path in (*old, *(p for p in new if p not in old)) if old.get(path, _ABSENT) != new.get(path, _ABSENT)
    ]
    growth = (before.get("training", {}).get("updates"), now.get("training", {}).get("updates"))
    unused = set(accepted)
    found: list[Difference] = []
    for path in changed:
        covering = {choice for choice in accepted if _below(path, choice)}
        unused -= covering
        rule = next((rule for pattern, rule in rules if _below(path, pattern)), None)
        why = _forbids(rule, old.get(path, _ABSENT), new.get(path, _ABSENT), growth)
        if why is not None and not covering:
            found.append(Difference(path, old.get(path, _ABSENT), new.get(path, _ABSENT), why))
    if unused and not found:
        listed = ", ".join(changed) or "nothing"
        raise UserError(
            f"--allow-change {' '.join(sorted(unused))}: nothing under that name differs from the checkpoint. What differs: {listed}."
        )
    return found


def describe(differences: Sequence[Difference], checkpoint: Path) -> str:
    """The message that refuses to resume."""
    lines = [
        f"  {d.path}: {_short(d.before)} in the checkpoint, {_short(d.now)} now ({d.why})" for d in differences[:_SHOWN]
    ]
    if len(differences) > _SHOWN:
        lines.append(f"  and {len(differences) - _SHOWN} more")
    first = differences[0].path
    return (
        f"the plan differs from that of {checkpoint}, where it must not change during a run:\n"
        + "\n".join(lines)
        + "\n"
        f"Undo the change and build again, start a run of another name, or accept it: train.py --allow-change {first}"
    )


def _forbids(rule: str | None, before: Any, now: Any, updates: tuple[Any, Any]) -> str | None:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (before, now, *updates))
    match rule:
        case "any":
            return None
        case "grow":
            return None if numbers and now > before else "may only grow"
        case "scale":
            if numbers and updates[0] != updates[1] and abs(now - before * updates[1] / updates[0]) <= 1:
                return None
            return "may change only in proportion to training.updates"
        case _:
            return "may not change"


def _leaves(value: object, path: str = "") -> dict[str, Any]:
    """The values of nested JSON by dotted path. Named items of a list go by name, and the order of the list is a value too."""
    if isinstance(value, Mapping) and value:
        pairs = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and value:
        names = [item.get("name") if isinstance(item, Mapping) else None for item in value]
        named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        keys = [str(name) for name in names] if named else [str(index) for index in range(len(value))]
        pairs = list(zip(keys, value, strict=True))
        if named:
            pairs.append(("(order)", " ".join(keys)))
    else:
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, item in pairs:
        leaves.update(_leaves(item, f"{path}.{key}" if path else key))
    return leaves


def _below(path: str, pattern: str) -> bool:
    """Whether a path is what a pattern names, or lies below it; each `*` stands for one step."""
    steps, wanted = path.split("."), pattern.split(".")
    return len(steps) >= len(wanted) and all(fnmatchcase(step, want) for step, want in zip(steps, wanted, strict=False))


def _short(value: Any) -> str:
    text = value if value == _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
