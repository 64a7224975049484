"""Two hundred texts with a secret in them, none of them anybody's: shapes of tokens, and ways in which texts hold passwords."""

from __future__ import annotations

import random
import re
import string

_DRAW = random.Random(7)
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits


def drawn(length: int, letters: str = ALNUM) -> str:
    """A text drawn from `letters` that has small, large letters and digits where these do."""
    return "".join(_DRAW.choice(letters) for _ in range(length))


TOKENS = {
    "AWS key": f"AKIA{drawn(16, UPPER)}",
    "AWS session key": f"ASIA{drawn(16, UPPER)}",
    "Google": f"AIza{drawn(35)}",
    "Google OAuth": f"ya29.{drawn(60)}",
    "Google client": f"GOCSPX-{drawn(28)}",
    "GitHub classic": f"ghp_{drawn(36)}",
    "GitHub OAuth": f"gho_{drawn(36)}",
    "GitHub user": f"ghu_{drawn(36)}",
    "GitHub server": f"ghs_{drawn(36)}",
    "GitHub refresh": f"ghr_{drawn(36)}",
    "GitHub fine": f"github_pat_{drawn(22)}_{drawn(59)}",
    "GitLab": f"glpat-{drawn(20)}",
    "GitLab deploy": f"gldt-{drawn(20)}",
    "GitLab runner": f"glrt-{drawn(20)}",
    "Slack bot": f"xoxb-{drawn(12, '0123456789')}-{drawn(24)}",
    "Slack user": f"xoxp-{drawn(12, '0123456789')}-{drawn(24)}",
    "Slack app": f"xapp-1-{drawn(11, UPPER)}-{drawn(40)}",
    "Stripe": f"sk_live_{drawn(24)}",
    "Stripe restricted": f"rk_test_{drawn(24)}",
    "Stripe webhook": f"whsec_{drawn(32)}",
    "OpenAI": f"sk-{drawn(48)}",
    "OpenAI project": f"sk-proj-{drawn(60)}",
    "Anthropic": f"sk-ant-api03-{drawn(80)}",
    "Hugging Face": f"hf_{drawn(34)}",
    "Hugging Face org": f"api_org_{drawn(34)}",
    "NVIDIA": f"nvapi-{drawn(64)}",
    "Replicate": f"r8_{drawn(37)}",
    "W&B": f"wandb_v1_{drawn(40)}",
    "Groq": f"gsk_{drawn(52)}",
    "Pinecone": f"pcsk_{drawn(60)}",
    "npm": f"npm_{drawn(36)}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{drawn(80)}",
    "RubyGems": f"rubygems_{drawn(48, HEX)}",
    "Docker": f"dckr_pat_{drawn(27)}",
    "SendGrid": f"SG.{drawn(22)}.{drawn(43)}",
    "Mailgun": f"key-{drawn(32, HEX)}",
    "DigitalOcean": f"dop_v1_{drawn(64, HEX)}",
    "Databricks": f"dapi{drawn(32, HEX)}",
    "Vault": f"hvs.{drawn(90)}",
    "Doppler": f"dp.pt.{drawn(43)}",
    "Shopify": f"shpat_{drawn(32, HEX)}",
    "Square": f"sq0atp-{drawn(22)}",
    "Sentry": f"sntrys_{drawn(60)}",
    "New Relic": f"NRAK-{drawn(27, UPPER)}",
    "Grafana": f"glsa_{drawn(32)}_{drawn(8, HEX)}",
    "Atlassian": f"ATATT3{drawn(180)}",
    "Figma": f"figd_{drawn(40)}",
    "Linear": f"lin_api_{drawn(40)}",
    "Postman": f"PMAK-{drawn(24, HEX)}-{drawn(34, HEX)}",
    "Pulumi": f"pul-{drawn(40, HEX)}",
    "Twilio": f"SK{drawn(32, HEX)}",
    "Telegram": f"{drawn(9, '123456789')}:AA{drawn(33)}",
    "JWT": f"eyJ{drawn(30)}.eyJ{drawn(60)}.{drawn(43)}",
    "age": f"AGE-SECRET-KEY-1{drawn(58, UPPER)}",
    "Terraform": f"{drawn(14)}.atlasv1.{drawn(64)}",
    "xAI": f"xai-{drawn(80)}",
}
AROUND = (
    "{}",
    "error: the server refused {} (401)",
    '{{"value": "{}"}}',
    "https://host.example/x?v={}&a=1",
    "echo '{}' | login",
)

_P = "s3cr3t/P@ss-w0rd"
PASSWORDS = [
    "--pass {}",
    "--pass={}",
    "--password {}",
    "--password={}",
    "--db-password '{}'",
    "--token {}",
    "--api-key={}",
    "--auth {}",
    "MYSQL_PWD={}",
    "PGPASSWORD={}",
    "export DB_PASS={}",
    "REDIS_AUTH={}",
    "WANDB_API_KEY={}",
    "SECRET_KEY={}",
    "NEPTUNE_API_TOKEN={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "AZURE_STORAGE_KEY={}",
    "AccountKey={}",
    "SharedAccessKey={}",
    "GITHUB_PAT={}",
    "MY_CREDS={}",
    "password: {}",
    "Password = {}",
    "passwd:{}",
    "client_secret={}",
    "clientSecret: {}",
    "accessToken={}",
    "refresh_token = {}",
    'password="{} with spaces {}"',
    "password='{} with spaces {}'",
    '{{"password": "{}"}}',
    '{{"password":"{} and {}"}}',
    '{{\\"password\\": \\"{}\\"}}',
    '{{\\"api_key\\":\\"{} and {}\\"}}',
    "{{'token': '{}'}}",
    "kwargs={{'secret': '{} x {}'}}",
    "postgres://me:{}@db.example/x",
    "https://me:{}@proxy.example:8080",
    "redis://:{}@cache.example:6379/0",
    "amqp://guest:{}@mq//",
    "mongodb+srv://u:{}@c0.mongodb.net/db?w=1",
    "git clone https://s3cr3t-and-long-enough@git.example/x.git",
    "https://x.blob.example/c?sv=2022-11-02&sr=c&sig={}",
    "https://x.s3.example/k?X-Amz-Signature={}&X-Amz-Date=1",
    "https://x.s3.example/k?X-Amz-Credential={}",
    "https://x.s3.example/k?a=1&X-Amz-Security-Token={}",
    "https://api.example/?key={}",
    "https://api.example/v1?access_token={}",
    "https://hooks.slack.com/services/T0/B0/{}",
    "https://discord.com/api/webhooks/1/{}",
    "Authorization: Bearer {}",
    "Authorization: Basic {}",
    "authorization: token {}",
    "-H 'X-Api-Key: {}'",
    "Cookie: sid={}; a={}",
    "Set-Cookie: session={}",
    "curl -u me:{} https://x.example",
    "curl --user me:{} https://x.example",
    "mysql -u root -p{} db",
    "sshpass -p {} ssh host",
    "docker login -u me -p {}",
    "train.py --wandb-api-key {} --lr 0.1",
    "SENTRY_DSN={}",
    "dsn={}",
]
_BASE64 = drawn(36) + "/+9Z"
_RANDOM = [
    f"MYSTERY={drawn(32)}",
    f"export X_ID='{drawn(28)}a1B'",
    f'"blob": "{drawn(40)}=="',
    f"opaque: {_BASE64}",
    f"UNKNOWN_THING={drawn(64, HEX)}",
    f"seed_material={drawn(40, HEX)}",
]
_BODY = "\n".join(drawn(64) for _ in range(4))
_KEYS = [
    f"-----BEGIN {kind}PRIVATE KEY-----\n{_BODY}\n-----END {kind}PRIVATE KEY-----"
    for kind in ("", "RSA ", "EC ", "OPENSSH ")
]


def _shapes() -> list[tuple[str, str]]:
    """Texts, each with what must not be left of it."""
    found = [(AROUND[number % len(AROUND)].format(token), token) for number, token in enumerate(TOKENS.values())]
    found += [(AROUND[(number + 2) % len(AROUND)].format(token), token) for number, token in enumerate(TOKENS.values())]
    for shape in PASSWORDS:
        found.append((shape.replace("{{", "{").replace("}}", "}").replace("{}", _P), "s3cr3t"))
    found += [(text, re.split("=|: ", text, maxsplit=1)[-1].strip("'\"=")) for text in _RANDOM]
    found += [(text, _BODY[:40]) for text in _KEYS] + [(text.replace("\n", "\\n"), _BODY[:40]) for text in _KEYS]
    found += [(_BODY, _BODY[:40]), (f"key: |\n{_BODY}", _BODY[70:100])]
    return found


SHAPES = _shapes()
HARMLESS = [
    "NCCL_SOCKET_IFNAME=eth0",
    "tokenizer.py:12 in encode",
    "rank 0 called all_reduce #41 (train.py:88)",
    "basic block",
    "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500",
    "keys: /default_pg/0//cpu//0/2",
    "PWD=/home/me/job",
    "OLDPWD=/tmp",
    "LD_LIBRARY_PATH=/usr/local/cuda-12.1/lib64:/opt/x/lib",
    "epoch=3 loss=0.1234 lr=1e-4",
    "max_tokens=4096 num_tokens: 12",
    "torch.version.git_version=6a4d1e2f6a4d1e2f6a4d1e2f6a4d1e2f6a4d1e2f",
    "commit: 0123456789abcdef0123456789abcdef01234567",
    "model=ResNet50_Imagenet1k_V2Weights",
    "TORCHELASTIC_RUN_ID=6f1c1d9e-0f39-4e3a-9b54-0c9a4c9e8f11",
    "https://host.example:8080/a/b",
    "tcp://10.0.0.1:29500",
    "sorted(found, key=len)",
    "for key in state:",
    "if password is None:",
    "the token is missing",
    "forward pass: 12 ms",
    'File "/home/me/secrets/train.py", line 3, in main',
    "passes=3 passed=True",
    "NCCL_DEBUG=INFO",
    "CUDA_VISIBLE_DEVICES=GPU-1,GPU-2",
    "ncclUniqueId 0x7f3a9c00",
    "author = me",
    "author=me@host",
    "design=8 sign=-1",
    "checkpoint=/data/runs/2024-05-01/epoch_12/model_00001234.safetensors",
    "OMP_NUM_THREADS=8",
    "TOKENIZERS_PARALLELISM=false",
]
