"""NCCL's log, in the layouts of its source for 2.18 to 2.31; hosts, addresses and numbers are ours."""

from __future__ import annotations

from ddpdoctor.logs.nccl_log import failed_diagnostics, read_log

# 2.18 to 2.22: a space before the colon, the version without a prefix
OLD = """\
gpu07:4100:4100 [1] NCCL INFO Bootstrap : Using ens7:10.9.0.7<0>
gpu07:4100:4100 [1] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
NCCL version 2.19.3+cuda12.3
gpu07:4100:4177 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_2:1/RoCE [RO]; OOB ens7:10.9.0.7<0>
gpu07:4100:4177 [1] NCCL INFO Using network IB
gpu07:4100:4177 [1] NCCL INFO comm 0x5581ee0a8b30 rank 9 nranks 16 cudaDev 1 nvmlDev 1 busId 2000 commId 0x1f - Init START
gpu07:4100:4177 [1] NCCL INFO Channel 00/0 : 9[1] -> 10[2] via P2P/IPC/read
gpu07:4100:4177 [1] NCCL INFO Channel 01/0 : 1[1] -> 9[1] [receive] via NET/IB/0/GDRDMA
gpu07:4100:4177 [1] NCCL INFO Channel 01/0 : 9[1] -> 1[1] [send] via NET/IB/1(8)/GDRDMA/Shared
gpu07:4100:4177 [1] NCCL INFO Connected all rings
"""

# 2.27 and later: a time, no space, rank and nRanks, a file before WARN
NEW = """\
[2026-11-02 07:10:01] gpu03:88:88 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
[2026-11-02 07:10:01] gpu03:88:88 [0] NCCL INFO Bootstrap: Using eth0:10.9.0.3<0>
[2026-11-02 07:10:01] gpu03:88:91 [0] NCCL INFO NET/IB : No device found.
[2026-11-02 07:10:01] gpu03:88:91 [0] NCCL INFO NET/Socket : Using [0]eth0:10.9.0.3<0> [1]docker0:172.17.0.1<0>
[2026-11-02 07:10:01] gpu03:88:91 [0] NCCL INFO Using network Socket
[2026-11-02 07:10:02] gpu03:88:91 [0] NCCL INFO comm 0x43803750 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
[2026-11-02 07:10:02] gpu03:88:91 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
[2026-11-02 07:10:02] gpu03:88:91 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0

[2026-11-02 07:10:09] gpu03:88:95 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-x1 to 9637892 bytes
[2026-11-02 07:10:09] gpu03:88:95 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-x1 to 9637892 bytes
"""


def test_an_old_log_tells_rank_network_and_transports() -> None:
    log = read_log(OLD)
    assert (log.rank, log.version, log.network) == (9, "2.19.3+cuda12.3", "IB")
    assert log.interfaces == ("ens7", "mlx5_0", "mlx5_2")
    assert (log.transports, log.warnings) == (("NET", "P2P"), ())


def test_a_new_log_tells_sockets_and_each_warning_once() -> None:
    log = read_log(NEW)
    assert (log.rank, log.version, log.network) == (0, "2.28.9+cuda13.0", "Socket")
    assert log.interfaces == ("eth0", "docker0")
    assert log.transports == ("NET", "SHM")
    assert log.warnings == ("Error: failed to extend /dev/shm/nccl-x1 to 9637892 bytes",)


def test_a_log_that_breaks_off_and_what_is_no_log_say_what_they_say() -> None:
    assert read_log(OLD[: OLD.index("Using network")]).network is None
    empty = read_log("\x00\xff what a program prints: NCCL WARN nothing")
    assert (empty.rank, empty.version, empty.transports, empty.warnings) == (None, None, (), ())


def test_only_a_check_that_found_something_is_a_word_of_the_diagnostics() -> None:
    good = "gpu03:88 NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)"
    bad = "gpu03:88 NCCL DIAG [INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification"
    other = "gpu03:88 NCCL DIAG [INFO] p2p: check returned 3"
    assert failed_diagnostics(f"{good}\n{other}") == ()
    assert failed_diagnostics(bad) == ("p2p: only 52/56 GPU-to-GPU peer accesses passed verification",)
