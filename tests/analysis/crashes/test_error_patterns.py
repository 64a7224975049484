"""Words that say of a peer that it is gone or late, and not why, are no error of the rank that wrote them."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.crashes.error_patterns import SecondaryError, secondary_error


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "misc/socket.cc:46 NCCL WARN socketProgressOpt: Call to send to 10.4.3.9<52905> failed : Connection reset by peer",
            SecondaryError.PEER_GONE,
        ),
        (
            "misc/socket.cc:484 NCCL WARN Net : Call to recv from 10.4.3.9<4> failed : Broken pipe",
            SecondaryError.PEER_GONE,
        ),
        ("misc/socket.cc:484 NCCL WARN Call to connect to 10.4.3.9<4> failed : Connection refused", None),
        ("rtDeviceSynchronize execute failed, reason=[stream sync timeout]", SecondaryError.TIMED_OUT),
        ("rtDeviceSynchronize execute failed, reason=[vector core exception]", None),
        ("RuntimeError: NPU function error: aclrtSynchronizeDevice, error code is 507046", SecondaryError.TIMED_OUT),
        ("RuntimeError: NPU function error: aclrtSynchronizeDevice, error code is 507015", None),
    ],
)
def test_what_is_said_of_a_peer(text: str, kind: SecondaryError | None) -> None:
    assert secondary_error(text) is kind
