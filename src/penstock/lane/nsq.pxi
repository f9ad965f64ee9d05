# NSQ's PUB and MPUB.

# NSQ spec 1.1: size, type, time stamp, attempts, id in 16 hex digits, body.
cdef enum:
    BODY_AT = 34
    ID_AT = 18
    STAMP_AT = 8
    MESSAGE = 2
    # "MPUB", a blank, a name of 64 bytes, "#ephemeral" among them, and the LF.
    LINE_MAX = 70
    # A frame's size is a signed 32-bit number. No batch holds a message of more (storage/batch.py).
    MESSAGE_MAX = 1073741824

cdef const char* HEX = b"0123456789abcdef"


@cython.final
cdef class Frames(Joint):
    """NSQ's message frames without their ids and time stamp."""

    dialect = 0

    cdef int add(self, const unsigned char* body, Py_ssize_t size) except -1:
        """Add a message."""
        cdef unsigned char* frame = self.room(BODY_AT + size)
        write_int(frame, <uint32_t>(BODY_AT - 4 + size))
        write_int(frame + 4, MESSAGE)
        memcpy(frame + BODY_AT, body, size)
        return self.added(BODY_AT + size, size)

    def encode(self, uint64_t first_id, int64_t timestamp_ns):
        """The frames with these ids, and their positions if their sizes differ."""
        cdef unsigned char* frame = <unsigned char*>PyByteArray_AS_STRING(self.buffer)
        cdef unsigned char* end = frame + self.size
        cdef uint64_t stamp = <uint64_t>timestamp_ns, rest
        cdef int place
        while frame < end:
            write_long(frame + STAMP_AT, stamp)
            frame[STAMP_AT + 8] = 0
            frame[STAMP_AT + 9] = 1
            rest = first_id
            for place in range(15, -1, -1):
                frame[ID_AT + place] = HEX[rest & 15]
                rest >>= 4
            first_id += 1
            frame += 4 + read_int(frame)
        return self.encoded()

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
        cdef Frames joint = None
        cdef list opened = []
        name = topic = None
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
            if topic is None or name is not self.name:
                topic, name, joint = self.publisher.topic(self.name), self.name, None
                if topic is None:
                    break
            if joint is None or joint.size + size > JOINT_BYTES_MAX:
                joint = <Frames>self.publisher.joint(Frames, topic, 0, size, opened)
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


