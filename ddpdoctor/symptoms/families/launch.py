"""Symptoms of the launch, the rendezvous and the network."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "the port is in use",
        ("DDP202", "DDP701", "DDP722", "DDP219"),
        ("address already in use", "EADDRINUSE", "two jobs on one node collide", "bind failed"),
    ),
    Symptom(
        "connection refused",
        ("DDP203", "DDP229", "DDP418", "DDP216"),
        ("errno 111", "ECONNREFUSED", "nothing listens on the master port"),
    ),
    Symptom(
        "an address cannot be assigned",
        ("DDP209", "DDP201", "DDP203"),
        (
            "errno 99",
            "EADDRNOTAVAIL",
            "Cannot assign requested address",
            "system error: 10049",
            "the requested address is not valid in its context",
        ),
    ),
    Symptom(
        "the store is tried again and again",
        ("DDP203", "DDP216", "DDP204"),
        ("TCP client failed to connect/validate to host - retrying", "the port of the store resets connections"),
    ),
    Symptom(
        "connection timed out",
        ("DDP204", "DDP215", "DDP212", "DDP229", "DDP418"),
        ("errno 110", "ETIMEDOUT", "cannot connect to the master", "client socket has timed out"),
    ),
    Symptom(
        "no route to host", ("DDP212", "DDP214", "DDP204"), ("errno 113", "EHOSTUNREACH", "network is unreachable")
    ),
    Symptom(
        "the host name cannot be resolved",
        ("DDP201", "DDP209"),
        ("name or service not known", "gaierror", "temporary failure in name resolution", "getaddrinfo failed"),
    ),
    Symptom(
        "every process says rank 0 and world size 1",
        ("DDP218", "DDP223", "DDP704"),
        ("each process trains alone", "world_size is 1 instead of 8", "srun starts independent jobs", "MEMBER: 1/1"),
    ),
    Symptom(
        "ranks see different world sizes",
        ("DDP207", "DDP217", "DDP225"),
        ("wrong world size", "two launchers set RANK", "LOCAL_WORLD_SIZE is wrong"),
    ),
    Symptom("two processes claim one rank", ("DDP206", "DDP728"), ("duplicate rank", "rank has already checked in")),
    Symptom("rank is out of range", ("DDP208",), ("RANK is not below WORLD_SIZE", "local rank too large")),
    Symptom(
        "launcher variables or arguments are missing",
        ("DDP414", "DDP723", "DDP703"),
        (
            "unrecognized arguments: --local-rank",
            "environment variable RANK expected, but not set",
            "the following arguments are required: --local_rank",
            "Override 'local-rank' not found",
        ),
    ),
    Symptom(
        "one torch.distributed call fails before init_process_group",
        ("DDP421", "DDP414"),
        ("default process group has not been initialized", "started with python instead of torchrun"),
    ),
    Symptom(
        "a variable has another name now",
        ("DDP189", "DDP190"),
        ("Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead",),
    ),
    Symptom(
        "the network interface is wrong",
        ("DDP166", "DDP210", "DDP168", "DDP211"),
        ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "uses docker0 or lo", "no socket interface found"),
    ),
    Symptom(
        "the start takes minutes",
        ("DDP230", "DDP146", "DDP201"),
        ("slow init_process_group", "initialization takes long", "hostname of the client socket cannot be retrieved"),
    ),
    Symptom(
        "InfiniBand is not used or fails",
        ("DDP174", "DDP183", "DDP418"),
        ("nccl falls back to sockets", "NET/IB", "ibv_reg_mr", "rdma fails", "roce", "port is down"),
    ),
)
