"""What dds_hosts.py measures: cases, in groups."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

ALL = ("imu", "odometry", "truth")
_PROFILES = """<?xml version="1.0" encoding="UTF-8" ?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">{}</profiles>
"""
#: Fast DDS's profiles by (multicast, quick_repair).
PROFILES = {
    (True, False): _PROFILES.format("""
  <data_reader profile_name="to_many" is_default_profile="true">
    <multicastLocatorList><locator><udpv4>
      <address>239.255.0.2</address><port>17900</port>
    </udpv4></locator></multicastLocatorList>
  </data_reader>
"""),
    (False, True): _PROFILES.format("""
  <data_writer profile_name="quick_repair" is_default_profile="true">
    <times><heartbeat_period><sec>0</sec><nanosec>100000000</nanosec></heartbeat_period></times>
  </data_writer>
"""),
}


@dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes:
        vehicles: that one host publishes for.
        topics: of each that the other hosts hear.
        link: of :data:`LINKS`.
        listeners: hosts that hear them.
        shared: each listener hears its share of the vehicles, not all of them.
        participants: of DDS on each host, among which the vehicles are shared.
        silent: topics of each vehicle that are announced and heard, but not published.
        large_buffers: sockets of 4 MiB instead of the system's default.
        staggered: vehicles publish one after the other in a period, not all at its beginning.
        best_effort: listeners ask for no repair of what is lost.
        quick_repair: what is lost is asked for again after 0.1 s, not 3 s.
        multicast: listeners take the data as a group.
        server: discovery by Fast DDS's discovery server, on the switch.
        seconds: of publishing; 0: discovery alone.
    """

    vehicles: int
    topics: tuple[str, ...] = ALL
    link: str = "gigabit"
    listeners: int = 1
    shared: bool = False
    participants: int = 1
    silent: int = 0
    large_buffers: bool = False
    staggered: bool = False
    best_effort: bool = False
    quick_repair: bool = False
    multicast: bool = False
    server: bool = False
    seconds: float = 5.0


COUNTS = (1, 10, 25, 50, 100)
MANY = Case(50)
WIFI = Case(25, link="wifi", large_buffers=True)
GROUPS: dict[str, list[Case]] = {
    "vehicles": [Case(n) for n in COUNTS],
    "buffers": [Case(n, large_buffers=True) for n in COUNTS],
    "wifi": [Case(n, link="wifi", large_buffers=True) for n in COUNTS],
    "remedies": [
        replace(MANY, staggered=True),
        replace(MANY, large_buffers=True, staggered=True),
        replace(MANY, large_buffers=True, listeners=2, shared=True),
        replace(MANY, topics=("odometry",)),
        Case(100, topics=("odometry",)),
        Case(100, topics=("odometry",), large_buffers=True),
        replace(WIFI, best_effort=True),
        replace(WIFI, topics=("odometry",)),
        replace(WIFI, topics=("odometry",), quick_repair=True),
        replace(WIFI, topics=("odometry",), best_effort=True),
    ],
    "listeners": [
        *(Case(10, listeners=k) for k in (1, 2, 4)),
        Case(10, listeners=4, multicast=True),
    ],
    "discovery": [
        Case(n, silent=s, participants=p, server=server, seconds=0.0)
        for server in (False, True)
        for n, s, p in (
            (10, 0, 1), (50, 0, 1), (100, 0, 1), (50, 17, 1),
            (8, 0, 2), (8, 0, 4), (8, 0, 8), (16, 0, 16),
        )
    ],
}  # fmt: skip


def words(case: Case) -> str:
    """What is special in a case."""
    plain = Case(case.vehicles)
    special = {key: value for key, value in asdict(case).items() if value != getattr(plain, key)}
    return ", ".join(
        [f"{case.vehicles} vehicles"]
        + [key if value is True else f"{key} {value}" for key, value in special.items()]
    )
