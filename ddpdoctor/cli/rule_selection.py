"""Codes as the user types them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ddpdoctor.catalogue import all_rules, nearest_name, rule_called
from ddpdoctor.errors import UsageError
from ddpdoctor.model import Rule


def parse_codes(given: Iterable[str]) -> tuple[str, ...]:
    """Codes and families from `--select`/`--ignore` values: `DDP305`, `ddp3`, a rule's name, or several by commas.

    Raises:
        UsageError: no rule has such a code, family or name.
    """
    return tuple(_parse(word.strip()) for words in given for word in words.split(",") if word.strip())


def find_rule(word: str) -> Rule:
    """The rule with this code or name, in either case.

    Raises:
        UsageError: there is none; the nearest one is suggested.
    """
    found = rule_called(word)
    if found is None:
        raise _unknown(word)
    return found


def _parse(word: str) -> str:
    prefix = word.upper()
    if re.fullmatch(r"DDP\d{0,2}", prefix) and any(rule.code.startswith(prefix) for rule in all_rules()):
        return prefix
    return find_rule(word).code


def _unknown(word: str) -> UsageError:
    near = nearest_name(word)
    hint = f"did you mean {near}? " if near else ""
    return UsageError(f"{word!r} is not a code or name of a finding", hint=f"{hint}`ddpdoctor checks` lists them all")
