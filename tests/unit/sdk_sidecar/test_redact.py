"""Secrets in every form known leave no trace, and ordinary training text stays as it is."""

import time

import pytest

from firstfault.redact import REDACTED, Redactor

CANARY = "cAnaRy-7391-hunter"


@pytest.mark.parametrize(
    "text",
    [
        f"password={CANARY}",
        f"PASSWORD: {CANARY}",
        f"db_password => '{CANARY}'",
        f"{{'api_key': '{CANARY}', 'b': 1}}",
        f'{{"client_secret": "{CANARY} with blanks"}}',
        f'{{\\"password\\": \\"{CANARY}\\"}}',
        f"['--api-key', '{CANARY}']",
        f"python train.py --hf-token {CANARY} --lr 1",
        f"export WANDB_API_KEY={CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"Authorization: Basic {CANARY}",
        f"token={CANARY}",
        f"db_pwd={CANARY}",
        f"postgresql://trainer:{CANARY}@db:5432/x",
        f"https://bucket.example/x?X-Amz-Signature={CANARY}&part=1",
        f"https://blob.example/x?se=2026&sig={CANARY}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"the value is {CANARY}, said without any key",
    ],
)
def test_a_secret_leaves_no_trace(text: str) -> None:
    clean = Redactor.from_environ({"SERVICE_TOKEN": CANARY} if "without any key" in text else {}).text(text)
    assert CANARY not in clean
    assert REDACTED in clean


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "aB3" * 12,
        "sk-" + "aB3" * 8,
        "ghp_" + "aB3" * 12,
        "glpat-" + "aB3" * 7,
        "xoxb-" + "123-" * 4,
        "AKIA" + "ABCD" * 4,
        "ffk_" + "aB3" * 8,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)
def test_tokens_are_known_by_their_shape(secret: str) -> None:
    assert Redactor().text(f"got {secret} here") == f"got {REDACTED} here"


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=2048 pad_token='<pad>' tokens: 4096 tokenizer: fast eos_token_id=2",
        "tcp://10.0.0.1:29500 file:///data/x",
        "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4242",
        "KeyError: 'password'",
        "PWD=/home/trainer",
        "self.api_key = None",
        "[rank0]:[E1129 18:00:00.1 ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",
    ],
)
def test_ordinary_training_text_stays(text: str) -> None:
    assert (
        Redactor.from_environ({"TOKENIZERS_PARALLELISM": "false", "SSH_KEY": "/root/.ssh/id", "API_KEY": "12345678901"}).text(text) == text
    )


def test_a_key_block_cut_at_its_head_is_removed() -> None:
    assert Redactor().text("AAAABBBB\nCCCC\n-----END PRIVATE KEY-----\nafter") == f"{REDACTED}\nafter"


def test_the_argument_after_a_secret_flag_is_a_value() -> None:
    args = ["python", "x.py", "--api-key", CANARY, "--max-tokens", "5", f"--token={CANARY}", "--verbose"]
    assert Redactor().args(args) == ["python", "x.py", "--api-key", REDACTED, "--max-tokens", "5", f"--token={REDACTED}", "--verbose"]


@pytest.mark.parametrize(
    "unit", ["a", "a-", "x_", "password", "token ", "://", '"', "'a', ", "eyJ", "-----BEGIN PRIVATE KEY-----\n", "Bearer "]
)
def test_time_is_linear_in_hostile_text(unit: str) -> None:
    """Four times the text may take sixteen times only in a quadratic pattern; the bound is far from both timer noise and that."""

    def spent(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        Redactor().text(text)
        return time.process_time() - started

    small = min(spent(20_000) for _ in range(3))
    assert min(spent(160_000) for _ in range(2)) < 24 * small + 0.05
