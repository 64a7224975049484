"""What loops wait for that do nothing but sleep, and loops that do more."""

from __future__ import annotations

import ast

import pytest

from ddpdoctor.source.stack_lines.waiting_loops import awaited

WAIT = {
    "while not os.path.exists(path):\n    time.sleep(1)": "os.path.exists(path)",
    "while queue.empty():\n    sleep(0.1)": "not queue.empty()",
    "while state != 2:\n    tries += 1\n    time.sleep(1)": "state == 2",
    "while ready is None:\n    logger.info('waiting')\n    time.sleep(5)": "ready is not None",
    "while True:\n    if path.exists():\n        break\n    time.sleep(1)": "path.exists()",
    "while True:\n    if done():\n        return\n    print('not yet')\n    time.sleep(1)": "done()",
    "while True:\n    if time.time() > end:\n        return\n    if up():\n        return\n    time.sleep(1)": "up()",
    "while True:\n    n += 1\n    if n > 60:\n        break\n    if ok():\n        break\n    time.sleep(1)": "ok()",
    "while not go():\n    if time.time() > end:\n        raise TimeoutError(end)\n    time.sleep(1)": "go()",
}
DO_MORE = (
    "while step < most:\n    train_step()\n    time.sleep(1)",
    "while not done:\n    loss = model(batch)\n    time.sleep(60)",
    "while not path.exists():\n    pass",
    "while True:\n    time.sleep(1)",
    "while time.time() < end:\n    time.sleep(1)",
    "while i < 600:\n    i += 1\n    time.sleep(1)",
    "for batch in loader:\n    time.sleep(1)",
    "while not found:\n    for name in names:\n        time.sleep(1)",
)


def loop_of(text: str) -> ast.For | ast.While:
    (loop,) = ast.parse(text).body
    assert isinstance(loop, ast.For | ast.While)
    return loop


@pytest.mark.parametrize("text", WAIT)
def test_a_loop_that_only_sleeps_waits_for_its_end(text: str) -> None:
    condition = awaited(loop_of(text))
    assert condition is not None
    assert ast.unparse(condition) == WAIT[text]


@pytest.mark.parametrize("text", DO_MORE)
def test_a_loop_that_does_more_than_sleep_waits_for_nothing(text: str) -> None:
    assert awaited(loop_of(text)) is None
