r"""What looks like a password, a token or a key in any text, and the text without it.

The shapes of tokens are facts that their issuers and the scanners gitleaks and detect-secrets publish. Every pattern is
linear: each repeat has a bound, or cannot meet what follows it (tests/laws/test_patterns.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

REDACTED = "<redacted>"
SHORTEST_RANDOM = 16  # characters without a separator; names of models and files are shorter, or are words
SHORTEST_HEX = 32  # digits: a key of 128 bits
SHORTEST_ALONE = 24  # characters of a random text with nothing beside it that says what it is
ENTROPY_BITS = 3.2  # per character: 16 random ones of base64 have 3.5 to 4, a repeated pattern below 3
CHANGES = (
    0.35  # of the places where upper case, lower case and digits could change: 0.6 where random, 0.2 in camel case
)

_WORD = (
    r"(?:(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)(?<!image_)(?<!special_)token(?!i[sz])|secret|passwd|password|passphrase|passcode|credential|webhook|api[_-]?key|access[_-]?key|account[_-]?key|"
    r"auth[_-]?key|private[_-]?key|encryption[_-]?key|signing[_-]?key|shared[_-]?key|storage[_-]?key|master[_-]?key|"
    r"secret[_-]?key|ssh[_-]?key|subscription[_-]?key|connection[_-]?string|"
    r"(?:wandb|comet|neptune|mlflow|clearml|openai|anthropic|hf|hub|aws|s3|azure|gcp|google|git|github|gitlab|slack|kaggle|"
    r"databricks|cohere|mistral|groq|swanlab|aim)[_-]?key)"
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
_ASSIGNED = rf"(?:{_QUOTE})?\]?\s{{0,8}}(?:=>|:=|[=:])\s{{0,8}}"
_WORDY = r"(?=[^\s\"',;]{0,60}[^A-Za-z\s\"',;.:!?)(])"  # what is drawn or chosen has more than letters; prose has not
_ESCAPED_QUOTE = r"&(?:quot|#0?3[49]|apos);"
_SCHEME = r"(?:bearer|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)"
_PREFIXED = {
    # AWS
    "a3t akia asia abia acca aroa aida": r"A3T[A-Z0-9]{17}|(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}",
    # Google
    "aiza ya29. gocspx-": r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,400}|GOCSPX-[A-Za-z0-9_-]{20,60}",
    "gh github_pat_": r"gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{16,255}",
    "gl": r"gl(?:pat|dt|rt|ft|soat|agent|oas|cbt|ptt|imt)-[A-Za-z0-9_-]{16,300}",
    "xox xapp-": r"xox[abeoprs]-[A-Za-z0-9-]{10,250}|xapp-[A-Za-z0-9-]{10,250}",
    "sk_ rk_ pk_ whsec_": r"(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{16,100}",
    "sk- hf_ api_org_ nvapi- r8_": (
        r"sk-[A-Za-z0-9_-]{16,300}|hf_[A-Za-z0-9]{16,80}|api_org_[A-Za-z0-9]{30,40}"
        r"|nvapi-[A-Za-z0-9_-]{20,100}|r8_[A-Za-z0-9]{20,60}"
    ),
    "wandb_v1_ pcsk_ gsk_ xai- pplx-": (
        r"wandb_v1_[A-Za-z0-9_]{16,200}|pcsk_[A-Za-z0-9_]{20,100}|gsk_[A-Za-z0-9]{20,100}"
        r"|xai-[A-Za-z0-9]{40,100}|pplx-[A-Za-z0-9]{40,60}"
    ),
    "npm_ pypi- rubygems_ dckr_": (
        r"npm_[A-Za-z0-9]{16,60}|pypi-[A-Za-z0-9_-]{16,400}|rubygems_[a-f0-9]{32,60}|dckr_(?:pat"
        r"|oat)_[A-Za-z0-9_-]{16,60}"
    ),
    "sg. key- xkeysib-": (
        r"SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}|key-[a-f0-9]{32}|xkeysib-[a-f0-9]{40,80}-[A-Za-z0-9]{"
        r"10,20}"
    ),
    "_v1_ dapi hv dp.": (
        r"do[opr]_v1_[a-f0-9]{40,80}|dapi[a-f0-9]{32}(?:-\d)?|hv[sbr]\.[A-Za-z0-9_-]{20,300}|dp\.(?:pt|st|ct"
        r"|sa)\.[A-Za-z0-9._-]{20,80}"
    ),
    "shp sq0 eaaa": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,50}|EAAA[A-Za-z0-9_-]{50,80}",
    "sntry nrak- nrii- glc_ glsa_": (
        r"sntry[su]_[A-Za-z0-9+/=_]{30,300}|NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9-]{30,34}"
        r"|glc_[A-Za-z0-9+/=]{30,400}|glsa_[A-Za-z0-9_]{30,60}"
    ),
    "atatt3 atctt3 figd_ lin_api_ ntn_": (
        r"ATATT3[A-Za-z0-9_=-]{20,300}|ATCTT3[A-Za-z0-9_=-]{20,300}|figd_[A-Za-z0-9_-]{30,60}"
        r"|lin_api_[A-Za-z0-9]{30,50}|ntn_[A-Za-z0-9]{40,50}"
    ),
    "pmak- hrku- pul- ops_ dt0": (
        r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}|HRKU-[A-Za-z0-9_-]{30,80}|pul-[a-f0-9]{40}"
        r"|ops_eyJ[A-Za-z0-9+/=_-]{50,1000}|dt0[a-z]01\.[A-Z0-9.]{50,100}"
    ),
    "age-secret :aa .atlasv1.": (
        r"AGE-SECRET-KEY-1[A-Z0-9]{58}|(?<![0-9A-Za-z])\d{8,10}:AA[A-Za-z0-9_-]{33}"
        r"|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"
    ),
    # a JSON web token
    "eyj": r"eyJ[A-Za-z0-9_-]{8,1000}\.[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]{0,4000})?",
    # Twilio
    "sk ac": r"(?:SK|AC)[a-f0-9]{32}",
    "pat sl. v1.0- fm1_ fm2_": (
        r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|sl\.[A-Za-z0-9_-]{60,300}|v1\.0-[a-f0-9]{24}-[a-f0-9]{60,200}"
        r"|fm[12]_[A-Za-z0-9+/=_-]{40,1000}"
    ),
    "q~ ssws tskey- kgat_": (
        r"[A-Za-z0-9_]{3}\dQ~[A-Za-z0-9_~.-]{31,34}|SSWS\s[A-Za-z0-9_-]{30,60}|tskey-[a-z]{2,12}-[A-Za-z0-9-]{"
        r"16,80}|KGAT_[a-f0-9]{32}"
    ),
    "lsv2_ sbp_ ltai akid": (
        r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|sbp_[a-f0-9]{40}|LTAI[A-Za-z0-9]{12,30}"
        r"|AKID[A-Za-z0-9]{32,36}"
    ),
}
"""Shapes of tokens by the texts, in lower case, of which each such token holds one."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape of text with a secret in it, and what tells quickly that a text has none."""

    hints: str
    """Texts, separated by spaces: one of them is in the lower case of each text that the pattern matches."""
    pattern: str
    """A regular expression for `keep`, which is kept, and `secret`."""


_NAMES = "token secret pass credential webhook key connection"
_OTHER_NAMES = "pwd pass pw dsn _key _pat _auth _creds _salt _sas _cookie"
_SURROUNDED = (
    # the name in one place, the value in the next: variables of containers, settings in XML, calls, lists of arguments
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>\bname{_ASSIGNED}(?:{_QUOTE})?{_NAME}(?:{_QUOTE})?\s{{0,8}},?\s{{0,40}}(?:{_QUOTE})?value"
        rf"{_ASSIGNED}(?:{_QUOTE})?)(?P<secret>{_COUNTS}[^\s\"',;{{}}]{{1,4000}})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>\b(?:key|name)=[\"']{_NAME}[\"']\s{{1,8}}value=[\"'])(?P<secret>{_COUNTS}[^\"'\n]{{1,4000}})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep><(?P<tag>{_NAME})>\s{{0,40}})(?P<secret>{_COUNTS}[^<\s][^<\n]{{0,4000}})(?=</(?P=tag)>)",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>[(\[,]\s{{0,8}}b?(?P<around>[\"'])-{{0,2}}{_NAME}(?P=around)\s{{0,8}},\s{{0,8}}b?)(?<=[,\sb])"
        rf"{_IN_QUOTES}",
    ),
    _Shape(
        "authorization",
        r"(?i)(?P<keep>[\"'](?:proxy-)?authorization[\"']\s{0,8}[,:]\s{0,8}b?[\"'](?:[A-Za-z0-9-]{1,30}\s{1,4})?)(?P<secre"
        r"t>(?!(?:[A-Za-z0-9-]{1,30}\s{1,4})?<redacted>)[^\s\"']{4,4000})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>\b(?:setenv|set\s-[gxU]{{1,3}}|ENV|configure\sset)\s{{1,8}}{_NAME}\s{{1,8}}[\"']?)"
        rf"(?P<secret>{_COUNTS}(?![=-]){_BARE})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>-\s{{1,8}}--?{_NAME}\s{{0,4}}\n\s{{0,40}}-\s{{1,8}}[\"']?)(?P<secret>{_COUNTS}(?!-){_BARE})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>(?<![A-Za-z0-9_-]){_NAME}(?:{_QUOTE})?:\s{{0,4}}[>|][+-]?\d?\s{{0,4}}\n\s{{0,40}})"
        rf"(?P<secret>(?!<redacted>)\S[^\n]{{0,4000}})",
    ),
    _Shape(
        "&",
        rf"(?i)(?P<keep>(?<![A-Za-z0-9_-]){_NAME}\s{{0,4}}[=:]\s{{0,4}}{_ESCAPED_QUOTE})"
        rf"(?P<secret>(?!<redacted>)[^&\n]{{1,4000}})",
    ),
    _Shape(
        "%",
        rf"(?i)(?P<keep>{_NAME}%(?:25)?3[AD](?:%(?:25)?2[02])?)(?P<secret>(?!<redacted>)(?:[^%&\s\"'<>]"
        rf"|%(?!(?:25)?2[26C])){{1,4000}})",
    ),
    _Shape(
        "-key:",
        r"(?P<keep>(?<![A-Za-z0-9])(?:[A-Z][A-Za-z0-9]{0,30}-){1,8}Key:\s{0,8})(?P<secret>(?!<redacted>)[^\s\"']{4,4000})",
    ),
    # files and tools with a place for a password
    _Shape(
        "password",
        r"(?i)(?P<keep>\b(?:login|user|account)\s{1,40}\S{1,200}\s{1,40}password\s{1,8})"
        r"(?P<secret>(?!<redacted>)[^\s\"']{1,4000})",
    ),
    _Shape(
        "password",
        r"(?P<keep>(?:^|\n)\s{0,40}password[ \t]{1,8})(?P<secret>(?!<redacted>)[^\s\"'=:]{1,4000})(?=\s{0,8}(?:\n|$))",
    ),
    _Shape(
        "pass:",
        r"(?P<keep>(?<![A-Za-z0-9_])pass:)(?P<secret>(?!<redacted>|[\d.]{1,20}(?![^\s]))[^\s\"',;)]{1,400})",
    ),
    _Shape(
        "redis-cli ldap 7z zip openssl htpasswd",
        r"(?P<keep>\bredis-cli\b[^\n]{0,99}?\s-a\s{0,4}|\bldap\w{3,10}\b[^\n]{0,200}?\s-w\s{1,4}"
        r"|\b7z[ar]?\b[^\n]{0,99}?\s-p|\b(?:un)?zip\b[^\n]{0,99}?\s-P\s{0,4}|\bopenssl\b[^\n]{0,99}?\s-k\s{1,4}"
        r"|\bhtpasswd\b[^\n]{0,99}?\s-\w{0,4}b\w{0,4}\s\S{1,99}\s\S{1,99}\s)(?P<secret>(?!<redacted>)[^\s\"']{1,400})",
    ),
    _Shape(
        "stdin with-token",
        r"(?P<keep>\b(?:echo|printf)\s{1,4}(?:-\w\s{1,4})?[\"']?)(?P<secret>(?!<redacted>)[^\s\"'"
        r"|]{1,400})(?=[\"']?\s{0,8}\|[^\n|]{0,200}--?(?:password-stdin|with-token|stdin))",
    ),
    _Shape(
        "login",
        r"(?P<keep>\blogin\s{1,8}(?:--?[\w-]{1,40}\s{1,8}){0,4})(?P<secret>[A-Fa-f0-9]{32,128})\b",
    ),
    _Shape(
        "jdbc:",
        r"(?P<keep>\bjdbc:[a-z:]{1,40}:[^\s/@\"']{1,99}/)(?P<secret>(?!<redacted>)[^\s@\"']{1,400})(?=@)",
    ),
    _Shape(
        "$",
        r"(?P<keep>\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w{0,3}|scrypt|pbkdf2[\w-]{0,20})\$)"
        r"(?P<secret>(?!<redacted>)[A-Za-z0-9./$=,+-]{20,400})",
    ),
    _Shape(
        "private-lines",
        r"(?P<keep>\bPrivate-Lines: \d{1,4}\n)(?P<secret>(?:[A-Za-z0-9+/=]{4,80}\n){1,99})",
    ),
    _Shape(
        "akia asia",
        r"(?P<keep>(?:AKIA|ASIA)[A-Z0-9]{16}[\s,:;|\"']{1,8})"
        r"(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
    ),
    # prose: an error or a prompt that repeats it
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>\b(?:api[ _-]?key|access[ _-]?key|access token|auth token|password|passphrase|token)\s(?:provided"
        rf"|given|is|was|used):?\s[\"']?)(?P<secret>{_COUNTS}{_WORDY}[^\s\"',;]{{6,4000}})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>\b(?:api[ _-]?key|access[ _-]?key|access token|auth token|invalid token|password"
        rf"|passphrase)\s[\"'])(?P<secret>{_COUNTS}{_WORDY}[^\s\"']{{6,4000}})",
    ),
)
_SECRETS = (
    _Shape(
        "-----begin",
        r"(?P<keep>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?P<secret>(?:(?!<redacted>)[^-]"
        r"|-(?!----END)){1,20000})",
    ),
    _Shape(
        "://",
        r"(?P<keep>://[^\s/:@\"'<>]{0,200}:)(?P<secret>(?!<redacted>@)[^\s\"'<>]{1,500})(?=@)",
    ),
    _Shape(
        "://",
        r"(?P<keep>://)(?P<secret>[^\s/:@\"'<>]{16,300})(?=@)",
    ),
    _Shape(
        "hooks. /webhooks webhook.",
        r"(?i)(?P<keep>\b(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
        r"|[\w.-]{1,100}\.webhook\.office\.com/webhookb2)/)(?P<secret>[^\s\"'<>]{8,300})",
    ),
    _Shape(
        "authorization",
        rf"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?(?:{_SCHEME}\s{{1,4}})?)"
        rf"(?P<secret>(?!<redacted>|{_SCHEME}\s)[^\s\"'<>]{{4,4000}})",
    ),
    _Shape(
        "bearer basic",
        r"(?P<keep>\b(?:[Bb]earer|BEARER|[Bb]asic|BASIC)\s{1,8})(?P<secret>(?=[A-Za-z]{0,99}(?:[0-9+/=_~-]"
        r"|[a-z][A-Z]))[A-Za-z0-9+/._~-]{8,4000}={0,2})",
    ),
    _Shape(
        "cookie:",
        r"(?i)(?P<keep>\b(?:set-)?cookie:\s{0,8})(?P<secret>(?!<redacted>)[^\s\"'][^\n\"']{3,4000})",
    ),
    _Shape(
        "=",
        r"(?i)(?P<keep>[?&;](?:sig|signature|key|auth|code|pass|pw|x-amz-(?:signature|credential|security-token)"
        r"|x-goog-(?:signature|credential)|awsaccesskeyid|se|skoid)=)(?P<secret>(?!<redacted>)[^\s\"'&<>]{4,4000})",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>(?<![A-Za-z0-9_-]){_NAME}{_ASSIGNED}){_IN_QUOTES}",
    ),
    _Shape(
        _OTHER_NAMES,
        rf"(?P<keep>{_OTHER_NAME}{_ASSIGNED}){_IN_QUOTES}",
    ),
    _Shape(
        _NAMES,
        rf"(?i)(?P<keep>(?<![A-Za-z0-9_-]){_NAME}{_ASSIGNED})(?P<secret>{_COUNTS}{_BARE})",
    ),
    _Shape(
        _OTHER_NAMES,
        rf"(?P<keep>{_OTHER_NAME}(?:{_QUOTE})?=)(?P<secret>{_COUNTS}{_BARE})",
    ),
    *_SURROUNDED,
    _Shape(
        f"{_NAMES} pw auth sas",
        rf"(?i)(?P<keep>(?<![A-Za-z0-9-])--?(?:{_NAME}|pass|pw|auth|key|sas|pwd)(?:\s{{1,8}}|=)){_IN_QUOTES}",
    ),
    _Shape(
        f"{_NAMES} pw auth sas",
        rf"(?i)(?P<keep>(?<![A-Za-z0-9-])--?(?:{_NAME}|pass|pw|auth|key|sas|pwd)(?:\s{{1,8}}|=))"
        rf"(?P<secret>{_COUNTS}(?!-){_BARE})",
    ),
    _Shape(
        "curl",
        r"(?P<keep>\bcurl\b[^\n]{0,400}?\s(?:-u|--user)[ =]?[^\s:]{1,99}:)(?P<secret>(?!<redacted>)[^\s\"']{1,400})",
    ),
    _Shape(
        "mysql mariadb sshpass docker",
        r"(?P<keep>\b(?:mysql(?:dump)?|mariadb|sshpass|docker login)\b[^\n]{0,99}?\s-p ?)(?P<secret>[^\s\"'<-]\S{0,99})",
    ),
    *(_Shape(hints, rf"(?P<keep>(?<![A-Za-z0-9])(?:))(?P<secret>{shape})") for hints, shape in _PREFIXED.items()),
)
_BY_HINTS = tuple((shape.hints.split(" "), shape.pattern) for shape in _SECRETS)
_compiled = cache(
    re.compile
)  # when a text has one of its hints: to compile them all takes a tenth of a command's start
_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,80})(?:\\{0,3}[\"'])?\s{0,4}[=:]\s{0,4}(?:\\{0,3}[\"'])?"
    r"(?P<value>[A-Za-z0-9+/_-]{16,4000}={0,2})(?![A-Za-z0-9+/_.-])"
)
_BASE64_LINE = re.compile(r"(?m)^[ \t]{0,40}(?P<value>[A-Za-z0-9+/]{60,76}={0,2})$")
_ALONE = re.compile(r"(?<![A-Za-z0-9+/_.=-])(?!_Z)(?P<value>[A-Za-z0-9][A-Za-z0-9_-]{1,200}={0,2})(?![A-Za-z0-9+/_.-])")
_NO_SECRET = re.compile(
    r"(?i)sha\d{0,3}|hash|md5|commit|digest|rev|uuid|guid|run_?id|checksum|fingerprint|version|build|etag|path|file|git"
)
_SECRET_NAME = re.compile(rf"(?i)^(?:{_NAME}|.{{0,60}}[_-](?:pwd|pass|pw|key|pat|auth|creds|sas|dsn)|pass|pw|dsn)$")
_CLASSES = ((re.compile(r"[a-z]"), "a"), (re.compile(r"[A-Z]"), "A"), (re.compile(r"[0-9]"), "0"))


# digests of tensors and numbers: a trace has millions, and the patterns above leave them as they are
_HARMLESS = re.compile(r"[0-9a-f]{1,59}|-?\d{1,20}\.\d{1,30}(?:e[+-]\d{1,3})?")


def redact_text(text: str) -> str:
    """`text` with everything that looks like a password, token or key replaced by `<redacted>`."""
    if _HARMLESS.fullmatch(text):
        return text
    clean = _redacted(text)
    return text if clean == text else clean  # itself, and not an equal text that was redacted before


@lru_cache(maxsize=1 << 16)  # the same few file names and dtypes stand in the records of thousands of ranks
def _redacted(text: str) -> str:
    if len(text) < SHORTEST_RANDOM and not any(mark in text for mark in "=: @"):
        return text
    known = text.lower()
    for hints, pattern in _BY_HINTS:
        if any(map(known.__contains__, hints)):
            text = _compiled(pattern).sub(_without_secret, text)
    text = _ASSIGNMENT.sub(_without_random_value, text)
    text = _ALONE.sub(lambda found: REDACTED if _is_a_token(found["value"]) else found[0], text)
    return _BASE64_LINE.sub(
        lambda found: found[0].replace(found["value"], REDACTED) if looks_random(found["value"]) else found[0], text
    )


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


def _is_a_token(value: str) -> bool:
    """Whether a text that no name explains is drawn at random from letters of both cases and digits: no hash, no identifier."""
    return len(value) >= SHORTEST_ALONE and any(
        len(part) >= SHORTEST_ALONE and part.upper() != part and part.lower() != part and _is_random(part)
        for part in _parts(value)
    )


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
