"""The job graph: the vertices with their operators and parallelism, and the edges between them.

The rules this module lives by:

- The graph is an immutable description. A partitioner describes how records are distributed, and the task
  does it; an operator node makes an operator for each subtask of each attempt.
- The translation from the user's nodes is a pure function of their order of creation: the same program has
  the same vertices and operator ids in any process. A node refers only to earlier nodes, so the order of
  creation is a topological order.
- It takes tens of microseconds for a small job, because the simulation builds a graph for each scenario.
- Operators are chained into one vertex over a forward edge of equal parallelism. A chain is a line, head
  first: an operator whose output has several consumers ends its chain (Flink would branch it), and so does
  one with a side output that is read.
- The names of vertices are unique in a graph, because faults, diagrams and messages name tasks. A second
  vertex `Map` is called `Map (2)`.
- Snapshots are matched to operators by operator id. It is derived from the uid or, without one, from the
  position in the topology, so that a change of the job upstream loses the state. Give stateful operators a
  uid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.key_groups import MAX_PARALLELISM_LIMIT, default_max_parallelism, operator_id

if TYPE_CHECKING:
    from onceproof.engine.configuration import CheckpointSettings
    from onceproof.engine.operators.base import Operator
    from onceproof.engine.types import TypeInformation


AUTO_WATERMARK_INTERVAL_MS: Final = 200
"""Flink's default of pipeline.auto-watermark-interval."""


class InvalidJob(ValueError):
    """The job cannot run as described. The message is one line with the operator and the mend."""


class PartitionerKind(Enum):
    """How an edge chooses the channel of a record (Flink: StreamPartitioner)."""

    FORWARD = "forward"
    HASH = "hash"
    REBALANCE = "rebalance"
    RESCALE = "rescale"
    BROADCAST = "broadcast"
    GLOBAL = "global"
    SHUFFLE = "shuffle"
    CUSTOM = "custom"


class Partitioner(Struct, frozen=True):
    """A kind, and what decides the channel.

    HASH has the key selector and the key type, CUSTOM the key selector and ``choose``, which is called with a
    key and the number of channels.
    """

    kind: PartitionerKind
    key_selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None
    choose: Callable[[Any, int], int] | None = None


FORWARD: Final = Partitioner(PartitionerKind.FORWARD)
REBALANCE: Final = Partitioner(PartitionerKind.REBALANCE)
RESCALE: Final = Partitioner(PartitionerKind.RESCALE)
BROADCAST: Final = Partitioner(PartitionerKind.BROADCAST)
GLOBAL: Final = Partitioner(PartitionerKind.GLOBAL)
SHUFFLE: Final = Partitioner(PartitionerKind.SHUFFLE)


class OperatorNode(Struct, frozen=True):
    """One operator of a chain. ``create`` returns a new operator with its own copy of the user's function.

    ``output_type`` is the declared type of what it emits, which its task applies; None: there is none, or the
    operator passes on what it gets.
    """

    operator_id: str
    uid: str | None
    name: str
    create: Callable[[], Operator]
    output_type: TypeInformation | None = None


class JobEdge(Struct, frozen=True):
    """An edge from the tail of vertex ``source`` to the head of vertex ``target``, both indexes in the graph.

    ``input_index`` is the edge's index in ``target.inputs``, ``output_index`` that in ``source.outputs``.
    ``side_output`` is the id of the side output that it carries, None for the main output. ``input_number``
    is the input of the target operator: 1 for the second of two connected streams.
    """

    source: int
    target: int
    partitioner: Partitioner
    input_index: int
    output_index: int
    side_output: str | None = None
    input_number: int = 0


class JobVertex(Struct, frozen=True):
    """A chain of operators that runs as one task in ``parallelism`` subtasks (Flink: JobVertex)."""

    index: int
    name: str
    operators: tuple[OperatorNode, ...]
    parallelism: int
    max_parallelism: int
    max_parallelism_is_explicit: bool
    inputs: tuple[JobEdge, ...]
    outputs: tuple[JobEdge, ...]
    auto_watermark_interval_ms: int = AUTO_WATERMARK_INTERVAL_MS
    """The interval of periodic watermarks; 0: never."""
    buffer_timeout_ms: int | None = None
    """How long records wait in its buffers: see check_buffer_timeout; None: as the job's settings say."""
    sort_memory_bytes: int | None = None
    """In BATCH mode: how much memory its sorted inputs take before they are spilled; None: another mode."""


class JobGraph(Struct, frozen=True):
    """A job that any runtime can run; ``vertices`` are in topological order (Flink: JobGraph)."""

    name: str
    job_id: str
    vertices: tuple[JobVertex, ...]
    settings: CheckpointSettings
    identity: str = ""
    """The name under which a job that is started again goes on; "": it has none, and begins anew."""

    @property
    def is_batch(self) -> bool:
        """Return whether the job runs in BATCH mode."""
        return any(vertex.sort_memory_bytes is not None for vertex in self.vertices)


JOB_ID_BYTES: Final = 16

_CUSTOM_KIND: Final = PartitionerKind.CUSTOM
_FORWARD_KIND: Final = PartitionerKind.FORWARD


class ChainingStrategy(Enum):
    """Whether an operator may be chained to its neighbours, only to later ones (HEAD), or never."""

    ALWAYS = "always"
    HEAD = "head"
    NEVER = "never"


_ALWAYS: Final = ChainingStrategy.ALWAYS
_NEVER: Final = ChainingStrategy.NEVER
"""Bound once: reading a member off its enumeration costs more than a function call."""


class Upstream(NamedTuple):
    """An input of an operator.

    ``partitioner`` None means forward if the parallelism is equal, else rebalance. ``side_output`` and
    ``input_number`` are those of JobEdge.
    """

    node: StreamNode
    partitioner: Partitioner | None = None
    side_output: str | None = None
    input_number: int = 0


class InForce(Struct, frozen=True):
    """What the environment said when an operator was made; it holds where the operator itself says nothing.

    None: what the environment says as the graph is built.
    """

    parallelism: int | None = None
    max_parallelism: int | None = None
    """-1: follows from the parallelism."""
    buffer_timeout_ms: int | None = None
    chaining: bool | None = None


class StreamNode(Struct, eq=False):
    """One operator of the user's program; its settings may change until the graph is built."""

    number: int
    name: str
    create: Callable[[], Operator]
    inputs: Sequence[Upstream]
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    parallelism_is_fixed: bool = False
    """Whether the operator is correct only with one subtask."""
    output_type: TypeInformation | None = None
    """See OperatorNode."""
    uid_hash: str | None = None
    """The operator's id itself, in place of one that follows from uid or place."""
    description: str = ""
    """What the program says of the operator, for its readers."""
    slot_sharing_group: str = ""
    """Kept and without effect: subtasks have no slots."""
    buffer_timeout_ms: int | None = None
    """See JobVertex."""
    in_force: InForce = InForce()

    def resolved_max_parallelism(self, of_job: int | None) -> int | None:
        """Return the operator's max parallelism, or ``of_job``; None: it follows from its parallelism."""
        if self.max_parallelism is not None:
            return self.max_parallelism
        kept = self.in_force.max_parallelism
        return of_job if kept is None else None if kept == -1 else kept

    def resolved_chaining(self, of_job: bool) -> ChainingStrategy:
        """Return whether the operator may be chained, where ``of_job`` says whether operators are."""
        kept = self.in_force.chaining
        return self.chaining if (of_job if kept is None else kept) else _NEVER

    def resolved_buffer_timeout(self, of_job: int) -> int | None:
        """Return the operator's buffer timeout; None: that of the job."""
        if self.buffer_timeout_ms is not None:
            return self.buffer_timeout_ms
        kept = self.in_force.buffer_timeout_ms
        return None if kept == of_job else kept

    def take_parallelism_of(self, other: StreamNode) -> None:
        """Have as many subtasks and key groups as another operator has so far, to be chained to it."""
        self.parallelism, self.max_parallelism = other.parallelism, other.max_parallelism
        self.in_force = replace(
            self.in_force,
            parallelism=other.in_force.parallelism,
            max_parallelism=other.in_force.max_parallelism,
        )

    def as_operator(self, operator_id: str) -> OperatorNode:
        """Return the operator of a chain."""
        return OperatorNode(operator_id, self.uid, self.name, self.create, self.output_type)


@lru_cache(maxsize=1024)
def job_id(job_name: str) -> str:
    """Return the job's id, derived from its name only, so that a restarted process finds its checkpoints."""
    return hashlib.sha256(b"job\0" + job_name.encode()).hexdigest()[: 2 * JOB_ID_BYTES]


@lru_cache(maxsize=4096)
def _id_of_uid(uid: str) -> str:
    return operator_id(uid)


@lru_cache(maxsize=4096)
def _id_of_place(place: str) -> str:
    return operator_id("place\0" + place)


def check_parallelism(parallelism: object, subject: str) -> int:
    """Return the parallelism; raise InvalidJob naming ``subject`` if it is not a positive whole number."""
    if type(parallelism) is not int or parallelism < 1:
        raise InvalidJob(f"parallelism of {subject} is {parallelism!r}: give a whole number of at least 1")
    return parallelism


def check_max_parallelism(max_parallelism: object, subject: str) -> int:
    """Return the max parallelism; raise InvalidJob naming ``subject`` if it is not in the allowed range."""
    if type(max_parallelism) is not int or not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise InvalidJob(
            f"max parallelism of {subject} is {max_parallelism!r}:"
            f" give a whole number from 1 to {MAX_PARALLELISM_LIMIT}"
        )
    return max_parallelism


def check_buffer_timeout(timeout_ms: object, subject: str) -> int:
    """Return a buffer timeout: milliseconds, 0 (each record by itself) or -1 (none). Raises InvalidJob."""
    if type(timeout_ms) is not int or timeout_ms < -1:
        raise InvalidJob(f"buffer timeout{subject} {timeout_ms!r}: give milliseconds, 0 or -1 (none)")
    return timeout_ms


def build_job_graph(
    name: str,
    nodes: Sequence[StreamNode],
    settings: CheckpointSettings,
    *,
    parallelism: int,
    max_parallelism: int | None = None,
    chaining: bool = True,
    auto_watermark_interval_ms: int = AUTO_WATERMARK_INTERVAL_MS,
    identity: str = "",
) -> JobGraph:
    """Translate nodes and all their upstream nodes into a job graph.

    ``identity`` is the name that the id follows from, "" for ``name``; the other keyword arguments are the
    job's defaults, for operators that no other ones were in force for when they were made. Raises InvalidJob.
    """
    nodes = with_upstreams(nodes)
    if not nodes:
        raise InvalidJob(f"job {name!r} has no operators: add a source and a sink before executing it")
    ids = operator_ids(name, nodes)
    parallelisms = [node.parallelism or node.in_force.parallelism or parallelism for node in nodes]
    maxima = [node.resolved_max_parallelism(max_parallelism) for node in nodes]
    place = {node.number: position for position, node in enumerate(nodes)}
    chains, vertex_of = _chains(nodes, place, parallelisms, maxima, chaining)
    refuses_custom = settings.unaligned and not settings.forces_unaligned
    incoming, outgoing = _edges(nodes, place, parallelisms, chains, vertex_of, refuses_custom)
    names: set[str] = set()
    vertices = []
    for index, chain in enumerate(chains):
        head = chain[0]
        own_parallelism = parallelisms[head]
        own_max = maxima[head]
        if own_max is not None and own_max < own_parallelism:
            raise InvalidJob(
                f"{nodes[head].name!r} has parallelism {own_parallelism} but max parallelism {own_max}:"
                " lower the one or raise the other"
            )
        vertices.append(
            JobVertex(
                index,
                _unique(" -> ".join([nodes[member].name for member in chain]), names),
                tuple([nodes[member].as_operator(ids[member]) for member in chain]),
                own_parallelism,
                default_max_parallelism(own_parallelism) if own_max is None else own_max,
                own_max is not None,
                tuple(incoming[index]),
                tuple(outgoing[index]),
                auto_watermark_interval_ms,
                _buffer_timeout([nodes[member] for member in chain], settings.buffer_timeout_ms),
            )
        )
    return JobGraph(name, job_id(identity or name), tuple(vertices), settings, identity)


def _buffer_timeout(chain: Sequence[StreamNode], of_job: int) -> int | None:
    """Return the shortest buffer timeout of a chain's operators, but for the job's; None: they have that."""
    own = [each for node in chain if (each := node.resolved_buffer_timeout(of_job)) is not None]
    return min([each for each in own if each >= 0] or own, default=None)


def with_upstreams(nodes: Sequence[StreamNode]) -> list[StreamNode]:
    """Return the nodes and all their upstream nodes in the order of creation."""
    found = {node.number: node for node in nodes}
    waiting = list(nodes)
    while waiting:
        for upstream in waiting.pop().inputs:
            node = upstream.node
            if node.number not in found:
                found[node.number] = node
                waiting.append(node)
    return [found[number] for number in sorted(found)]


def operator_ids(job_name: str, nodes: Sequence[StreamNode]) -> list[str]:
    """Return an operator id for each node; raise InvalidJob if two nodes have one uid and so one state."""
    ids: list[str] = []
    owner: dict[str, str] = {}
    id_of: dict[int, str] = {}
    for position, node in enumerate(nodes):
        if node.uid_hash is not None:
            identity = node.uid_hash
            if identity in ids:
                raise InvalidJob(
                    f"uid hash {identity!r} of {node.name!r} is the id of another operator in job"
                    f" {job_name!r}: give each operator an id of its own"
                )
        elif node.uid is not None:
            if node.uid in owner:
                raise InvalidJob(
                    f"uid {node.uid!r} is given to both {owner[node.uid]!r} and {node.name!r}"
                    f" in job {job_name!r}: give each operator a uid of its own"
                )
            owner[node.uid] = node.name
            identity = _id_of_uid(node.uid)
        else:
            identity = _id_of_place(
                f"{position}\0" + "\0".join([id_of[upstream.node.number] for upstream in node.inputs])
            )
        id_of[node.number] = identity
        ids.append(identity)
    return ids


def _chains(
    nodes: Sequence[StreamNode],
    place: dict[int, int],
    parallelisms: list[int],
    maxima: list[int | None],
    chaining: bool,
) -> tuple[list[list[int]], list[int]]:
    """Return the positions of the nodes of each vertex, head first, and the vertex of each position."""
    consumers = [0] * len(nodes)
    for node in nodes:
        for read in node.inputs:
            consumers[place[read.node.number]] += 1
    chains: list[list[int]] = []
    vertex_of: list[int] = []
    for position, node in enumerate(nodes):
        if len(node.inputs) == 1 and node.resolved_chaining(chaining) is _ALWAYS:
            upstream, partitioner, side_output, _ = node.inputs[0]
            before = place[upstream.number]
            if (
                (partitioner is None or partitioner.kind is _FORWARD_KIND)
                and side_output is None
                and consumers[before] == 1
                and parallelisms[before] == parallelisms[position]
                and maxima[before] == maxima[position]
                and upstream.resolved_chaining(chaining) is not _NEVER
            ):
                vertex = vertex_of[before]
                chains[vertex].append(position)
                vertex_of.append(vertex)
                continue
        vertex_of.append(len(chains))
        chains.append([position])
    return chains, vertex_of


def _edges(
    nodes: Sequence[StreamNode],
    place: dict[int, int],
    parallelisms: list[int],
    chains: list[list[int]],
    vertex_of: list[int],
    refuses_custom: bool,
) -> tuple[list[list[JobEdge]], list[list[JobEdge]]]:
    """Return the edges into and out of each vertex. ``refuses_custom``: custom partitioners are an error."""
    incoming: list[list[JobEdge]] = [[] for _ in chains]
    outgoing: list[list[JobEdge]] = [[] for _ in chains]
    for target, chain in enumerate(chains):
        head = chain[0]
        for upstream, partitioner, side_output, input_number in nodes[head].inputs:
            before = place[upstream.number]
            source = vertex_of[before]
            equal = parallelisms[before] == parallelisms[head]
            if partitioner is None:
                partitioner = FORWARD if equal else REBALANCE
            elif partitioner.kind is _FORWARD_KIND and not equal:
                raise InvalidJob(
                    f"forward from {upstream.name!r} (parallelism {parallelisms[before]}) to"
                    f" {nodes[head].name!r} (parallelism {parallelisms[head]}) needs equal parallelism:"
                    " use rescale() or rebalance()"
                )
            elif partitioner.kind is _CUSTOM_KIND and refuses_custom:
                raise InvalidJob(
                    f"unaligned checkpoints do not go with partition_custom in front of {nodes[head].name!r}:"
                    " after a rescale the partitioner is asked again where records in flight belong. Set"
                    " execution.checkpointing.unaligned.forced if it always chooses the same for a key, or"
                    " take aligned checkpoints"
                )
            edge = JobEdge(
                source,
                target,
                partitioner,
                len(incoming[target]),
                len(outgoing[source]),
                side_output,
                input_number,
            )
            incoming[target].append(edge)
            outgoing[source].append(edge)
    return incoming, outgoing


def _unique(name: str, taken: set[str]) -> str:
    candidate = name
    number = 2
    while candidate in taken:
        candidate = f"{name} ({number})"
        number += 1
    taken.add(candidate)
    return candidate
