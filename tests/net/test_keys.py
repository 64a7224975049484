"""Two nodes share a key that a reader of all they publish does not know."""

from __future__ import annotations

import random
import threading

import pytest

from ddpdoctor.net import keys as net_keys
from ddpdoctor.net.keys import GENERATOR, PRIME, Keys, public_number
from ddpdoctor.transport.peer_message import PeerError
from tests.waiting import within


def is_prime(number: int) -> bool:
    """Miller-Rabin with 12 bases."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in random.Random(0).sample(range(2, 1 << 32), 12):
        power = pow(base, odd, number)
        if power in {1, number - 1}:
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def test_the_prime_is_safe_and_the_generator_makes_a_large_group() -> None:
    assert PRIME.bit_length() == 2048
    assert is_prime(PRIME)
    assert is_prime((PRIME - 1) // 2)
    assert pow(GENERATOR, 2, PRIME) != 1


def test_two_nodes_share_a_key_and_a_third_has_others() -> None:
    nodes = [Keys(number, 3) for number in range(3)]
    publics = {number: keys.public for number, keys in enumerate(nodes)}
    for keys in nodes:
        keys.learn(publics)
    assert nodes[0].of(1) == nodes[1].of(0)
    assert len({nodes[0].of(1), nodes[0].of(2), nodes[1].of(2)}) == 3
    assert nodes[0].of(0) is None
    assert nodes[0].of(7) is None


@pytest.mark.parametrize("text", ["", "0", "1", f"{PRIME - 1:x}", f"{PRIME:x}", "xyz", "f" * 600, "-5", "é"])
def test_a_number_from_which_anybody_could_calculate_the_key_is_refused(text: str) -> None:
    with pytest.raises(PeerError):
        public_number(text)


def test_an_unknown_node_has_no_key_until_the_numbers_are_known() -> None:
    keys = Keys(0, 2)
    assert keys.of(1, wait_seconds=0.01) is None


def test_a_number_that_is_no_node_of_the_job_is_not_waited_for() -> None:
    """Each connection of a stranger would hold a thread for as long."""
    keys = Keys(0, 3)
    threads = [
        threading.Thread(target=keys.of, args=(node,), kwargs={"wait_seconds": 600.0}) for node in (-1, 0, 3, 70000)
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not [thread for thread in threads if thread.is_alive()]


def test_no_more_threads_wait_than_a_limit_and_all_end_once_the_number_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(net_keys, "MAX_WAITING", 3)
    keys, other = Keys(0, 2), Keys(1, 2)
    threads = [
        threading.Thread(target=keys.of, args=(1,), kwargs={"wait_seconds": 600.0}, daemon=True) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    assert within(lambda: sum(thread.is_alive() for thread in threads) <= 3)
    keys.learn({1: other.public})
    for thread in threads:
        thread.join(20)
    assert not [thread for thread in threads if thread.is_alive()]
    assert keys.of(1) is not None
