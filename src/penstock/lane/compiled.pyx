# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""Plain publishes in compiled code: frames, joint publishes, and what a connection reads of them.

Nothing here does I/O or looks at a clock. Every pointer stays between the two ends of a buffer that
is checked before each step; sizes that a client states are compared with what has come, and with
the limits, before they are used.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

# NSQ spec 1.1: size, type, time stamp, attempts, id in 16 hex digits, body.
cdef enum:
    BODY_AT = 34
    ID_AT = 18
    STAMP_AT = 8
    MESSAGE = 2
    # "MPUB", a blank, a name of 64 bytes, "#ephemeral" among them, and the LF.
    LINE_MAX = 70
    # A batch is joined up to this size (broker/publish/batching.py), so a joint publish is too.
    JOINT_BYTES_MAX = 1048576
    # A frame's size is a signed 32-bit number. No batch holds a message of more (storage/batch.py).
    MESSAGE_MAX = 1073741824

cdef const char* HEX = b"0123456789abcdef"


cdef inline int32_t read_int(const unsigned char* at) noexcept nogil:
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline void write_int(unsigned char* at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = value >> 16 & 0xFF
    at[2] = value >> 8 & 0xFF
    at[3] = value & 0xFF


cdef class Frames:
    """NSQ's message frames without their ids and time stamp (``Records``)."""

    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t nbytes
    cdef readonly Py_ssize_t stride
    cdef bytearray buffer
    cdef Py_ssize_t size
    cdef bytearray ends  # where each frame ends (u32), once they are not all of one size

    note = b""
    dialect = 0

    def __cinit__(self):
        self.buffer = bytearray()

    cdef int room(self, Py_ssize_t more) except -1:
        """Make room for more bytes behind the frames."""
        cdef Py_ssize_t needed = self.size + more
        if needed > len(self.buffer):
            PyByteArray_Resize(self.buffer, max(needed, 2 * self.size))
        return 0

    cdef int add(self, const unsigned char* body, Py_ssize_t size) except -1:
        """Add a message."""
        self.room(BODY_AT + size)
        cdef unsigned char* frame = <unsigned char*>PyByteArray_AS_STRING(self.buffer) + self.size
        write_int(frame, <uint32_t>(BODY_AT - 4 + size))
        write_int(frame + 4, MESSAGE)
        memcpy(frame + BODY_AT, body, size)
        self.size += BODY_AT + size
        self.nbytes += size
        if not self.count:
            self.stride = BODY_AT + size
        elif self.stride != BODY_AT + size and self.ends is None:
            self.list_ends()
        self.count += 1
        if self.ends is not None:
            self.add_end(<uint32_t>self.size)
        return 0

    cdef int add_end(self, uint32_t end) except -1:
        cdef Py_ssize_t length = len(self.ends)
        if self.count * 4 + 4 > length:
            PyByteArray_Resize(self.ends, max(64, 2 * length))
        (<uint32_t*>PyByteArray_AS_STRING(self.ends))[self.count] = end
        return 0

    cdef int list_ends(self) except -1:
        """List the ends of the frames so far, which were all of one size."""
        cdef Py_ssize_t number, stride = self.stride
        self.ends = bytearray(8 * (self.count + 2))
        cdef uint32_t* ends = <uint32_t*>PyByteArray_AS_STRING(self.ends)
        for number in range(self.count + 1):
            ends[number] = <uint32_t>(number * stride)
        self.stride = 0
        return 0

    def encode(self, uint64_t first_id, int64_t timestamp_ns):
        """The frames with these ids, and their positions if their sizes differ; none can be added
        from now on.
        """
        cdef unsigned char* frame = <unsigned char*>PyByteArray_AS_STRING(self.buffer)
        cdef unsigned char* end = frame + self.size
        cdef uint64_t stamp = <uint64_t>timestamp_ns, rest
        cdef int place
        while frame < end:
            for place in range(8):
                frame[STAMP_AT + place] = stamp >> (56 - 8 * place) & 0xFF
            frame[STAMP_AT + 8] = 0
            frame[STAMP_AT + 9] = 1
            rest = first_id
            for place in range(15, -1, -1):
                frame[ID_AT + place] = HEX[rest & 15]
                rest >>= 4
            first_id += 1
            frame += 4 + read_int(frame)
        return memoryview(self.buffer)[: self.size], self.positions()

    def to_list(self):
        """The bodies one by one."""
        cdef Py_ssize_t at = 0, end
        cdef list bodies = []
        raw = bytes(self.buffer)
        while at < self.size:
            end = at + 4 + read_int(<const unsigned char*>PyBytes_AS_STRING(raw) + at)
            bodies.append(raw[at + BODY_AT : end])
            at = end
        return bodies

    cdef object positions(self):
        if self.ends is None:
            return None
        import numpy
        return numpy.frombuffer(self.ends, numpy.uint32, self.count + 1)


cdef Py_ssize_t mpub_size(
    const unsigned char* data, Py_ssize_t length, Py_ssize_t size_max, Py_ssize_t nbytes_max
) noexcept nogil:
    """The bytes of an MPUB's count, sizes and bodies; 0 if it is not complete or breaks a rule.

    nsqd follows the count and the sizes (NSQ spec 1.7), whatever size the command states.
    """
    if length < 4:
        return 0
    cdef Py_ssize_t left = read_int(data), at = 4, size
    size_max = min(size_max, MESSAGE_MAX)
    if left <= 0 or left > (nbytes_max - 4) // 5:
        return 0
    while left:
        if length - at < 4:
            return 0
        size = read_int(data + at)
        at += 4
        if size <= 0 or size > size_max or size > length - at:
            return 0
        at += size
        left -= 1
    return at if at <= nbytes_max else 0


cdef int add_mpub(Frames frames, const unsigned char* data, Py_ssize_t nbytes) except -1:
    """Add the messages of an MPUB that ``mpub_size`` has looked through."""
    cdef Py_ssize_t at = 4, size
    frames.room(nbytes + <Py_ssize_t>read_int(data) * (BODY_AT - 4))
    while at < nbytes:
        size = read_int(data + at)
        frames.add(data + at + 4, size)
        at += 4 + size
    return 0


def frames_of_mpub(const unsigned char[::1] data not None, Py_ssize_t max_msg_size,
                   Py_ssize_t max_body_size):
    """The messages of an MPUB from its count on; None if it is not complete or breaks a rule."""
    if not data.shape[0]:
        return None
    cdef Py_ssize_t nbytes = mpub_size(&data[0], data.shape[0], max_msg_size, max_body_size)
    if not nbytes:
        return None
    cdef Frames frames = Frames()
    add_mpub(frames, &data[0], nbytes)
    return frames


@cython.final
@cython.freelist(64)
cdef class Part:
    """The part of one connection in a joint publish: ``count`` requests of one kind, ``what``.

    ``turn`` is the first one's number among all that the connection is to be answered.
    """

    cdef Producer producer
    cdef object what
    cdef Py_ssize_t turn
    cdef Py_ssize_t count


cdef class Producer:
    """The intake of a connection: plain publishes here, everything else by ``parse``."""

    cdef Publisher publisher

    def data_received(self, data):
        cdef Py_ssize_t taken
        if self.publisher is not None and type(data) is bytes and self.takes_plain():
            taken = self.take(<bytes>data)
            if taken == PyBytes_GET_SIZE(data):
                return
            if taken:
                data = (<bytes>data)[taken:]
        self.pass_on(data)

    cdef bint takes_plain(self) except -1:
        """True if the next byte begins a request, and a publish may be handled at once."""
        raise NotImplementedError

    cdef Py_ssize_t take(self, bytes data) except -1:
        """Publish with the plain requests at the start of ``data``; how many bytes they are."""
        raise NotImplementedError

    cdef int pass_on(self, data) except -1:
        """Hand what is not plain to the parser."""
        self.parse(data)
        return 0

    cdef int answer(self, Part part, failure) except -1:
        """Answer the requests of a part."""
        raise NotImplementedError


@cython.final
cdef class Joint(Frames):
    """Publishes of several producers to a topic, as one publish."""

    cdef list parts

    def __cinit__(self):
        self.parts = []

    cdef int joined(self, Producer producer, what, Py_ssize_t turn) except -1:
        """Note who waits for an answer."""
        cdef Part part
        if self.parts:
            part = self.parts[len(self.parts) - 1]
            if part.producer is producer and part.what is what and part.turn + part.count == turn:
                part.count += 1
                return 0
        part = Part()
        part.producer, part.what, part.turn, part.count = producer, what, turn, 1
        self.parts.append(part)
        return 0

    def done(self, failure):
        """Answer the producers, in the order in which they came."""
        cdef Part part
        cdef list parts = self.parts
        self.parts = []
        for part in parts:
            part.producer.answer(part, failure)


@cython.final
cdef class Publisher:
    """The way of joint publishes into the topics of a node."""

    cdef object commits
    cdef object topics

    def __init__(self, commits, topics):
        self.commits = commits
        self.topics = topics

    cdef Joint joint(self, name, Py_ssize_t size, list opened):
        """The joint publish for ``size`` more bytes to a topic; None if the topic takes none.

        ``opened`` are those that this read has begun; ``publish`` is to be called with them.
        """
        cdef Joint joint
        topic = self.topics.get(name)
        if topic is None or not topic.joins:
            return None
        for last, joint in reversed(opened):
            if last is topic:
                if joint.size + size <= JOINT_BYTES_MAX:
                    return joint
                break
        else:
            # One that others have begun, unless something else is staged behind it.
            newest = topic.staged[len(topic.staged) - 1].records if topic.staged else None
            if type(newest) is Joint and (<Joint>newest).size + size <= JOINT_BYTES_MAX:
                self.commits.joined()
                return <Joint>newest
        joint = Joint()
        opened.append((topic, joint))
        return joint

    cdef int publish(self, list opened) except -1:
        for topic, joint in opened:
            self.commits.publish(topic, joint, 0, joint.done)
        return 0


cdef class Commands(Producer):
    """The intake of a connection that speaks NSQ (``nsq.nsqd.tcp.connection``)."""

    cdef public object phase
    cdef public object blocked_since
    cdef public object heard_ns
    cdef public object reader
    cdef public object turn
    cdef public object session
    cdef public object outbox
    cdef public bint is_at_end
    cdef public Py_ssize_t owed
    cdef public Py_ssize_t told
    cdef public dict early
    cdef public list behind
    cdef public dict pub_counts
    cdef object handling
    cdef bytes ok
    cdef object parse_name
    cdef object clock_ns
    cdef Py_ssize_t max_msg_size
    cdef Py_ssize_t max_body_size
    cdef bytes line  # of the newest plain publish, with its LF
    cdef object name

    def take_plain(self, Publisher publisher, handling, ok, parse_name, clock_ns, limits):
        self.publisher = publisher
        self.handling = handling
        self.ok = ok
        self.parse_name = parse_name
        self.clock_ns = clock_ns
        self.max_msg_size = min(<Py_ssize_t>limits.max_msg_size, MESSAGE_MAX)
        self.max_body_size = limits.max_body_size
        self.line = b""

    cdef bint takes_plain(self) except -1:
        return (
            self.phase is self.handling
            and self.blocked_since is None
            and not self.turn.held
            and self.reader.is_at_a_command
        )

    cdef Py_ssize_t take(self, bytes data) except -1:
        cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, length = PyBytes_GET_SIZE(data), line, body, size
        cdef bint is_mpub
        cdef Joint joint = None
        cdef list opened = []
        name = None
        while True:
            line = self.line_at(data, at)
            if not line or length - at - line < 4:
                break
            body = at + line + 4
            size = read_int(start + body - 4)
            is_mpub = start[at] == c"M"
            if is_mpub:
                if size <= 0 or size > self.max_body_size:
                    break
                size = mpub_size(
                    start + body, length - body, self.max_msg_size, self.max_body_size
                )
                if not size:
                    break
            elif size <= 0 or size > self.max_msg_size or size > length - body:
                break
            if joint is None or name is not self.name or joint.size + size > JOINT_BYTES_MAX:
                joint, name = self.publisher.joint(self.name, size, opened), self.name
                if joint is None:
                    break
            joint.joined(self, "MPUB" if is_mpub else "PUB", self.told + self.owed + 1)
            self.owed += 1
            if is_mpub:
                add_mpub(joint, start + body, size)
                self.counted(read_int(start + body))
            else:
                joint.add(start + body, size)
                self.counted(1)
            at = body + size
        if at:
            self.heard_ns = self.clock_ns()
            self.publisher.publish(opened)
        return at

    cdef Py_ssize_t line_at(self, bytes data, Py_ssize_t at) except -1:
        """The length of the line of a PUB or MPUB that begins there; 0 if it is another.

        The line is parsed once: a producer repeats it.
        """
        cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data) + at
        cdef Py_ssize_t left = PyBytes_GET_SIZE(data) - at, known = PyBytes_GET_SIZE(self.line), end
        cdef const unsigned char* lf
        if known and left >= known and not memcmp(start, PyBytes_AS_STRING(self.line), known):
            return known
        lf = <const unsigned char*>memchr(start, 10, min(left, LINE_MAX)) if left > 0 else NULL
        if lf == NULL:
            return 0
        end = lf - start
        if end > 4 and not memcmp(start, b"PUB ", 4):
            name = self.parse_name(data[at + 4 : at + end])
        elif end > 5 and not memcmp(start, b"MPUB ", 5):
            name = self.parse_name(data[at + 5 : at + end])
        else:
            return 0
        if name is None:
            return 0
        self.line, self.name = data[at : at + end + 1], name
        return end + 1

    cdef int counted(self, Py_ssize_t messages) except -1:
        name = self.name
        if name in self.pub_counts:
            self.pub_counts[name] += messages
        else:
            self.session.count(name, messages)
        return 0

    cdef int answer(self, Part part, failure) except -1:
        if (
            failure is not None
            or part.turn != self.told + 1
            or self.phase is not self.handling
            or self.is_at_end
            or self.early
            or self.behind
        ):
            self.session.published(part.what, part.turn, failure, part.count)
            return 0
        self.told += part.count
        self.owed -= part.count
        self.outbox.answer(self.ok if part.count == 1 else self.ok * part.count, self.owed > 0)
        return 0


cdef class Requests(Producer):
    """The intake of a connection that speaks HTTP (``net.http.server.connection``)."""

    cdef public Py_ssize_t owed
    cdef public bytes held
    cdef public list slots
    cdef public bint paused
    cdef public object reader
    cdef object find
    cdef Py_ssize_t longest
    cdef object name  # of the topic of the publishes that are owed an answer

    def take_plain(self, Publisher publisher, find, Py_ssize_t longest):
        self.publisher = publisher
        self.find = find
        self.longest = longest

    cdef bint takes_plain(self) except -1:
        return (
            not self.slots
            and not self.paused
            and not self.held
            and not self.reader.unfinished
            and not self.reader.ended
        )

    cdef int pass_on(self, data) except -1:
        if self.owed or self.held:
            self.hold(data)
        else:
            self.parse(data)
        return 0

    cdef Py_ssize_t take(self, bytes data) except -1:
        cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, length = PyBytes_GET_SIZE(data), head, size
        cdef Joint joint
        cdef list opened = []
        while at < length:
            head = data.find(b"\r\n\r\n", at, at + self.longest) + 4
            known = self.find(data[at:head]) if head > 3 else None
            if known is None or known.topic is None:
                break
            # Publishes to one topic end in their order, those to two may not: answers would swap.
            if self.owed and known.topic != self.name:
                break
            size = known.body_size
            if size <= 0 or size > length - head:
                break
            joint = self.publisher.joint(known.topic, size, opened)
            if joint is None:
                break
            joint.joined(self, known, 0)
            joint.add(start + head, size)
            self.owed += 1
            self.name = known.topic
            at = head + size
        if at:
            self.publisher.publish(opened)
        return at

    cdef int answer(self, Part part, failure) except -1:
        self.owed -= part.count
        self.published(part.what, part.count, failure)
        return 0
