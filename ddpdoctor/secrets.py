r"""What looks like a password, a token or a key in any text, and the text without it.

The shapes of tokens are facts that their issuers and the scanners gitleaks and detect-secrets publish. Every pattern is
linear: each repeat has a bound, or cannot meet what follows it (tests/laws/test_patterns.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

REDACTED = "<redacted>"
SHORTEST_RANDOM = 16  # characters without a separator; names of models and files are shorter, or are words
SHORTEST_HEX = 32  # digits: a key of 128 bits
ENTROPY_BITS = 3.2  # per character: 16 random ones of base64 have 3.5 to 4, a repeated pattern below 3
CHANGES = (
    0.35  # of the places where upper case, lower case and digits could change: 0.6 where random, 0.2 in camel case
)

_WORD = (
    r"(?:token|secret|passwd|password|passphrase|passcode|credential|webhook|api[_-]?key|access[_-]?key|account[_-]?key|"
    r"auth[_-]?key|private[_-]?key|encryption[_-]?key|signing[_-]?key|shared[_-]?key|storage[_-]?key|master[_-]?key|"
    r"secret[_-]?key|ssh[_-]?key|connection[_-]?string)"
)
_NAME = rf"[A-Za-z0-9_-]{{0,60}}{_WORD}[A-Za-z0-9_-]{{0,60}}"
_OTHER_NAME = (
    r"(?<![A-Za-z0-9_])(?:[A-Za-z0-9_-]{1,60}(?<!OLD)(?<!old)(?:PWD|pwd)|[Pp]wd(?==\S)|pass|PASS|pw|PW|dsn|DSN|"
    r"[A-Z0-9_]{1,60}_(?:KEY|PASS|PW|PAT|AUTH|CREDS|SALT|DSN|SAS|COOKIE))"
)
_QUOTE = r"\\{0,3}[\"']"
_COUNTS = r"(?!<redacted>|(?:\d{1,12}(?:\.\d{1,6})?|[Tt]rue|[Ff]alse|[Nn]one|null)(?![^\s,;)}\]]))"
_IN_QUOTES = r"(?P<quote>\\{0,3}[\"'])(?P<secret>(?:(?!(?P=quote))[^\n]){1,4000})(?=(?P=quote)|$|\n)"
_BARE = r"[^\s\"',;&|<>\\](?:[^\s\"',;&\\]|\\(?![\"'nrt])){0,4000}"
_ASSIGNED = rf"(?:{_QUOTE})?\s{{0,8}}(?:=>|:=|[=:])\s{{0,8}}"
_SCHEME = r"(?:bearer|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)"
_PREFIXED = (
    r"A3T[A-Z0-9]{17}|(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,400}|GOCSPX-[A-Za-z0-9_-]{20,60}",  # Google
    r"gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{16,255}",
    r"gl(?:pat|dt|rt|ft|soat|agent|oas|cbt|ptt|imt)-[A-Za-z0-9_-]{16,300}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,250}|xapp-[A-Za-z0-9-]{10,250}",
    r"(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{16,100}",
    r"sk-[A-Za-z0-9_-]{16,300}|hf_[A-Za-z0-9]{16,80}|api_org_[A-Za-z0-9]{30,40}|nvapi-[A-Za-z0-9_-]{20,100}|r8_[A-Za-z0-9]{20,60}",
    r"wandb_v1_[A-Za-z0-9_]{16,200}|pcsk_[A-Za-z0-9_]{20,100}|gsk_[A-Za-z0-9]{20,100}|xai-[A-Za-z0-9]{40,100}|pplx-[A-Za-z0-9]{40,60}",
    r"npm_[A-Za-z0-9]{16,60}|pypi-[A-Za-z0-9_-]{16,400}|rubygems_[a-f0-9]{32,60}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,60}",
    r"SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}|key-[a-f0-9]{32}|xkeysib-[a-f0-9]{40,80}-[A-Za-z0-9]{10,20}",
    r"do[opr]_v1_[a-f0-9]{40,80}|dapi[a-f0-9]{32}(?:-\d)?|hv[sbr]\.[A-Za-z0-9_-]{20,300}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{20,80}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,50}|EAAA[A-Za-z0-9_-]{50,80}",
    r"sntry[su]_[A-Za-z0-9+/=_]{30,300}|NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9-]{30,34}|glc_[A-Za-z0-9+/=]{30,400}|glsa_[A-Za-z0-9_]{30,60}",
    r"ATATT3[A-Za-z0-9_=-]{20,300}|ATCTT3[A-Za-z0-9_=-]{20,300}|figd_[A-Za-z0-9_-]{30,60}|lin_api_[A-Za-z0-9]{30,50}|ntn_[A-Za-z0-9]{40,50}",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}|HRKU-[A-Za-z0-9_-]{30,80}|pul-[a-f0-9]{40}|ops_eyJ[A-Za-z0-9+/=_-]{50,1000}|dt0[a-z]01\.[A-Z0-9.]{50,100}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{58}|(?<![0-9A-Za-z])\d{8,10}:AA[A-Za-z0-9_-]{33}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}",
    r"eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]{0,4000})?",  # a JSON web token
    r"(?:SK|AC)[a-f0-9]{32}",  # Twilio
)
_SECRETS = (
    re.compile(
        r"(?P<keep>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?P<secret>(?:(?!<redacted>)[^-]|-(?!----END)){1,20000})"
    ),
    re.compile(r"(?P<keep>://[^\s/:@\"'<>]{0,200}:)(?P<secret>(?!<redacted>@)[^\s\"'<>]{1,500})(?=@)"),
    re.compile(r"(?P<keep>://)(?P<secret>[^\s/:@\"'<>]{16,300})(?=@)"),
    re.compile(r"(?i)(?P<keep>\b(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|[\w.-]{1,100}\.webhook\.office\.com/webhookb2)/)(?P<secret>[^\s\"'<>]{8,300})"),
    re.compile(rf"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?(?:{_SCHEME}\s{{1,4}})?)(?P<secret>(?!<redacted>|{_SCHEME}\s)[^\s\"'<>]{{4,4000}})"),
    re.compile(r"(?i)(?P<keep>\b(?:bearer|basic)\s{1,8})(?P<secret>[A-Za-z0-9+/._~-]{8,4000}={0,2})"),
    re.compile(r"(?i)(?P<keep>\b(?:set-)?cookie:\s{0,8})(?P<secret>(?!<redacted>)[^\n\"']{4,4000})"),
    re.compile(
        r"(?i)(?P<keep>[?&;](?:sig|signature|key|auth|code|pass|pw|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|awsaccesskeyid|se|skoid)=)(?P<secret>(?!<redacted>)[^\s\"'&<>]{4,4000})"
    ),
    re.compile(rf"(?i)(?P<keep>(?<![A-Za-z0-9_-]){_NAME}{_ASSIGNED}){_IN_QUOTES}"),
    re.compile(rf"(?P<keep>{_OTHER_NAME}{_ASSIGNED}){_IN_QUOTES}"),
    re.compile(rf"(?i)(?P<keep>(?<![A-Za-z0-9_-]){_NAME}{_ASSIGNED})(?P<secret>{_COUNTS}{_BARE})"),
    re.compile(rf"(?P<keep>{_OTHER_NAME}(?:{_QUOTE})?=)(?P<secret>{_COUNTS}{_BARE})"),
    re.compile(rf"(?i)(?P<keep>(?<![A-Za-z0-9-])--?(?:{_NAME}|pass|pw|auth|key|sas|pwd)(?:\s{{1,8}}|=)){_IN_QUOTES}"),
    re.compile(rf"(?i)(?P<keep>(?<![A-Za-z0-9-])--?(?:{_NAME}|pass|pw|auth|key|sas|pwd)(?:\s{{1,8}}|=))(?P<secret>{_COUNTS}(?!-){_BARE})"),
    re.compile(r"(?P<keep>\bcurl\b[^\n]{0,400}?\s(?:-u|--user)[ =]?[^\s:]{1,99}:)(?P<secret>(?!<redacted>)[^\s\"']{1,400})"),
    re.compile(r"(?P<keep>\b(?:mysql(?:dump)?|mariadb|sshpass|docker login)\b[^\n]{0,99}?\s-p ?)(?P<secret>[^\s\"'<-]\S{0,99})"),
    *(re.compile(rf"(?P<keep>(?<![A-Za-z0-9])(?:))(?P<secret>{shape})") for shape in _PREFIXED),
)  # fmt: skip
_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,80})(?:\\{0,3}[\"'])?\s{0,4}[=:]\s{0,4}(?:\\{0,3}[\"'])?"
    r"(?P<value>[A-Za-z0-9+/_-]{16,4000}={0,2})(?![A-Za-z0-9+/_.-])"
)
_BASE64_LINE = re.compile(r"(?m)^(?P<value>[A-Za-z0-9+/]{60,76}={0,2})$")
_NO_SECRET = re.compile(
    r"(?i)sha\d{0,3}|hash|md5|commit|digest|rev|uuid|guid|run_?id|checksum|fingerprint|version|build|etag|path|file|git"
)
_SECRET_NAME = re.compile(rf"(?i)^(?:{_NAME}|.{{0,60}}[_-](?:pwd|pass|pw|key|pat|auth|creds|sas|dsn)|pass|pw|dsn)$")
_CLASSES = ((re.compile(r"[a-z]"), "a"), (re.compile(r"[A-Z]"), "A"), (re.compile(r"[0-9]"), "0"))


@lru_cache(maxsize=1 << 16)  # the same few file names and dtypes stand in the records of thousands of ranks
def redact_text(text: str) -> str:
    """`text` with everything that looks like a password, token or key replaced by `<redacted>`."""
    if len(text) < SHORTEST_RANDOM and not any(mark in text for mark in "=: @"):
        return text
    for pattern in _SECRETS:
        text = pattern.sub(_without_secret, text)
    text = _ASSIGNMENT.sub(_without_random_value, text)
    return _BASE64_LINE.sub(lambda found: REDACTED if looks_random(found["value"]) else found[0], text)


@lru_cache(maxsize=1 << 12)
def names_a_secret(key: str) -> bool:
    """Whether a variable or field with this name holds a secret, whatever that looks like."""
    return _SECRET_NAME.match(key) is not None


def looks_random(value: str) -> bool:
    """Whether a text is likely to be drawn at random: hexadecimal digits of a key, or mixed letters and digits."""
    return any(map(_is_random, _parts(value)))


def _without_secret(found: re.Match[str]) -> str:
    start, end = found.start("secret") - found.start(), found.end("secret") - found.start()
    return f"{found[0][:start]}{REDACTED}{found[0][end:]}"


def _without_random_value(found: re.Match[str]) -> str:
    if _NO_SECRET.search(found["name"]) or not looks_random(found["value"]):
        return found[0]
    return f"{found[0][: found.start('value') - found.start()]}{REDACTED}"


def _parts(value: str) -> Iterator[str]:
    """The parts between what separates words; a value with a plus sign or padding is base64 as a whole."""
    bare = value.rstrip("=")
    yield from ([bare] if "+" in value or bare != value else re.split(r"[/_.-]", bare))


def _is_random(part: str) -> bool:
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", part):
        return len(part) >= SHORTEST_HEX and not part.isdecimal() and _entropy(part) > ENTROPY_BITS - 0.5
    if len(part) < SHORTEST_RANDOM or not all(kind.search(part) for kind, _ in _CLASSES):
        return False
    kinds = part
    for kind, letter in _CLASSES:
        kinds = kind.sub(letter, kinds)
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes >= CHANGES * (len(part) - 1) and _entropy(part) > ENTROPY_BITS


def _entropy(text: str) -> float:
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
