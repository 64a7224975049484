"""Three and five hosts made of network namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.net.namespaces import Hosts


@pytest.fixture(scope="module")
def three() -> Iterator[Hosts]:
    with Hosts(3) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def five() -> Iterator[Hosts]:
    with Hosts(5) as hosts:
        yield hosts


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """Three or five hosts, as they were made once the test is over."""
    made: Hosts = request.getfixturevalue(request.param)
    yield made
    for number in range(made.count):
        made.restore(number)
