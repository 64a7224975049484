from tests.checks import Sick, ranks
from tests.checks.matrices import probe

SICK = (
    Sick(
        evidence=ranks(probe(), probe("foreign", answer="HTTP/1.0 200 OK")),
        says="10.0.0.1 port 29500 is no rendezvous store for rank 1: what listens there says 'HTTP/1.0 200 OK'",
        ranks=(1,),
    ),
    Sick(
        evidence=ranks(probe(), probe("silent", detail="connects, and says nothing for 6 s")),
        says="10.0.0.1 port 29500 is no rendezvous store for rank 1: "
        "what listens there connects, and says nothing for 6 s",
        ranks=(1,),
    ),
)
HEALTHY = (ranks(probe(), probe()),)
