from tests.checks import Sick, ranks
from tests.checks.matrices import probe

SICK = (
    Sick(
        evidence=ranks(probe(), probe("foreign", answer="HTTP/1.0 200 OK")),
        says="10.0.0.1 port 29500 is not a torch store (seen from rank 1): the listener answered 'HTTP/1.0 200 OK'",
        ranks=(1,),
        measured={"addr": "10.0.0.1", "port": 29500},
    ),
    Sick(
        evidence=ranks(probe(), probe("silent", detail="accepts the connection, but sends nothing for 6 s")),
        says="10.0.0.1 port 29500 is not a torch store (seen from rank 1): the listener accepts the connection, but "
        "sends nothing for 6 s",
        ranks=(1,),
        measured={"addr": "10.0.0.1", "port": 29500},
    ),
)
HEALTHY = (ranks(probe(), probe()),)
