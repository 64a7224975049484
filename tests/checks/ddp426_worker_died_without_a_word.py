"""Logs: workers that went away without a word."""

from tests.checks import Sick
from tests.rank_ends import from_log

ACTOR_DIED_K8S = r"""ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
	class_name: TaskRunner
	actor_id: 8d1498767d305748d59d87da01000000
	pid: 319017
	namespace: 1109301e-e25e-4e12-9ae4-1dd5fc7468e4
	ip: 10.44.139.116
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code None. The worker may have exceeded K8s pod memory limits.
"""  # noqa: E501 - as libraries write it
WORKER_CRASHED = r"""ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.
"""  # noqa: E501 - as libraries write it
WORKER_OF_A_NODE = r"""(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: ff27 Worker ID: d893 Node ID: 8440 Worker IP address: 172.19.24.110 Worker port: 10185 Worker PID: 90738 Worker exit type: SYSTEM_ERROR
"""  # noqa: E501 - as libraries write it
VLLM_ENGINE_DIED = r"""(EngineCore_0 pid=771) INFO 09-01 10:11:12 [core.py:76] Initializing a V1 LLM engine with config: tensor_parallel_size=4
ERROR 09-01 10:31:12 [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(ACTOR_DIED_K8S),
        says="a Ray actor (pid 319017 on 10.44.139.116) died, and Ray does not know why",
        measured={"pid": "319017", "ip": "10.44.139.116"},
    ),
    Sick(
        evidence=from_log(ACTOR_DIED_K8S.splitlines()[0] + "\n"),
        says="a Ray actor died, and Ray does not know why",
    ),
    Sick(
        evidence=from_log(WORKER_OF_A_NODE),
        says="a Ray worker (pid 90738 on 172.19.24.110) died, and Ray does not know why",
        measured={"pid": "90738", "ip": "172.19.24.110"},
    ),
    Sick(evidence=from_log(WORKER_CRASHED), says="a Ray worker died, and Ray does not know why"),
    Sick(
        evidence=from_log(VLLM_ENGINE_DIED),
        says="Worker proc VllmWorker-2 died, and its parent does not know why",
        measured={"what": "Worker proc VllmWorker-2"},
    ),
)
HEALTHY = (
    from_log("(raylet) Spilled 2 MiB, 3 objects, write throughput 900 MiB/s.\nstep 10 loss 2.31\nstep 20 loss 2.20\n"),
)
