"""Limits of a container, in both versions of the interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.host.cgroup import Cgroup
from ddpdoctor.host.host_access import HostAccess

GIB = 1 << 30


def group(root: Path, **files: str) -> Cgroup:
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return Cgroup(HostAccess(root=root))


def test_version_2_takes_the_tightest_group_above(tmp_path: Path) -> None:
    found = group(
        tmp_path,
        proc__self__cgroup="0::/user/job",
        sys__fs__cgroup__user__cpuDOTmax="200000 100000",
        sys__fs__cgroup__user__job__cpuDOTmax="max 100000",
        sys__fs__cgroup__user__memoryDOTmax=str(8 * GIB),
        sys__fs__cgroup__user__memoryDOTcurrent=str(7 * GIB),
        sys__fs__cgroup__user__memoryDOTstat=f"anon 5\ninactive_file {2 * GIB}",
        sys__fs__cgroup__user__job__memoryDOTmax="max",
    )
    assert found.quota_cores() == 2.0
    assert found.memory() == (8 * GIB, 5 * GIB)


@pytest.mark.parametrize("path", ["/", "/docker/0123"])
def test_version_1_is_read_at_the_mount_where_the_path_is_the_hosts(tmp_path: Path, path: str) -> None:
    found = group(
        tmp_path,
        proc__self__cgroup=f"5:memory:{path}\n3:cpu,cpuacct:{path}",
        sys__fs__cgroup__cpu__cpuDOTcfs_quota_us="150000",
        sys__fs__cgroup__cpu__cpuDOTcfs_period_us="100000",
        sys__fs__cgroup__memory__memoryDOTlimit_in_bytes=str(4 * GIB),
        sys__fs__cgroup__memory__memoryDOTusage_in_bytes=str(3 * GIB),
        sys__fs__cgroup__memory__memoryDOTstat=f"total_inactive_file {GIB}",
    )
    assert found.quota_cores() == 1.5
    assert found.memory() == (4 * GIB, 2 * GIB)


def test_no_limit_is_none_in_either_version(tmp_path: Path) -> None:
    found = group(
        tmp_path,
        proc__self__cgroup="5:memory:/\n3:cpu:/\n0::/",
        sys__fs__cgroup__cpu__cpuDOTcfs_quota_us="-1",
        sys__fs__cgroup__cpu__cpuDOTcfs_period_us="100000",
        sys__fs__cgroup__memory__memoryDOTlimit_in_bytes="9223372036854771712",
        sys__fs__cgroup__cpuDOTmax="max 100000",
    )
    assert found.quota_cores() is None
    assert found.memory() == (None, None)


def test_without_any_cgroup_nothing_is_limited(tmp_path: Path) -> None:
    found = Cgroup(HostAccess(root=tmp_path))
    assert found.quota_cores() is None
    assert found.memory() == (None, None)
