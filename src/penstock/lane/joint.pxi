# Joint publishes: what several producers publish to a queue of a topic between two commits.

cdef enum:
    # A batch is joined up to this size (broker/publish/batching.py), so a joint publish is too.
    JOINT_BYTES_MAX = 1048576
    # The publishes that are looked at for one to join; further back a new one is begun.
    LOOKED_AT = 16


@cython.final
@cython.freelist(64)
cdef class Part:
    """The part of one connection in a joint publish: ``count`` requests of one kind, ``what``.

    ``turn`` is the first one's number among all that the connection is to be answered. A send of
    RocketMQ's is a part by itself: ``turn`` is its request's number, ``count`` its messages.
    """

    cdef Producer producer
    cdef object what
    cdef Py_ssize_t turn
    cdef Py_ssize_t count


cdef class Joint:
    """Messages as frames without what their place decides (``Records``), and who waits for them."""

    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t nbytes
    cdef readonly Py_ssize_t stride
    cdef bytearray buffer
    cdef Py_ssize_t size
    cdef bytearray ends  # where each frame ends (u32), once they are not all of one size
    cdef object topic
    cdef Py_ssize_t queue
    cdef list parts

    note = b""

    def __cinit__(self):
        self.buffer = bytearray()
        self.parts = []

    cdef unsigned char* room(self, Py_ssize_t more) except NULL:
        """Make room for more bytes behind the frames; where they go."""
        cdef Py_ssize_t needed = self.size + more
        if needed > len(self.buffer):
            PyByteArray_Resize(self.buffer, max(needed, 2 * self.size))
        return <unsigned char*>PyByteArray_AS_STRING(self.buffer) + self.size

    cdef int added(self, Py_ssize_t frame, Py_ssize_t body) except -1:
        """Count a frame that has been written to the room for it."""
        self.size += frame
        self.nbytes += body
        if not self.count:
            self.stride = frame
        elif self.stride != frame and self.ends is None:
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

    cdef object encoded(self):
        """The frames, and their positions if their sizes differ."""
        if self.ends is None:
            return memoryview(self.buffer)[: self.size], None
        import numpy
        positions = numpy.frombuffer(self.ends, numpy.uint32, self.count + 1)
        return memoryview(self.buffer)[: self.size], positions

    cdef int joined(self, Producer producer, what, Py_ssize_t turn) except -1:
        """Note who waits for an answer."""
        cdef Part part
        if self.parts:
            part = self.parts[len(self.parts) - 1]
            if part.producer is producer and part.what is what and part.turn + part.count == turn:
                part.count += 1
                return 0
        self.parts.append(new_part(producer, what, turn, 1))
        return 0

    def done(self, failure):
        """Answer the producers, in the order in which they came."""
        cdef Part part
        cdef list parts = self.parts
        self.parts = []
        for part in parts:
            part.producer.answer(part, failure)


cdef Part new_part(Producer producer, what, Py_ssize_t turn, Py_ssize_t count):
    cdef Part part = Part()
    part.producer, part.what, part.turn, part.count = producer, what, turn, count
    return part


@cython.final
cdef class Publisher:
    """The way of joint publishes into the topics of a node."""

    cdef object commits
    cdef object topics

    def __init__(self, commits, topics):
        self.commits = commits
        self.topics = topics

    cdef object topic(self, name):
        """The topic whose publishes may be joined, in its one queue; None if they may not."""
        topic = self.topics.get(name)
        return topic if topic is not None and topic.joins and topic.spread == 1 else None

    cdef Joint joint(self, type kind, topic, Py_ssize_t queue, Py_ssize_t size, list opened):
        """The joint publish for ``size`` more bytes to a queue of a topic.

        It is one that this read has opened, or that others have staged, unless something else for
        the queue is staged behind it; else a new one. ``publish`` is to be called with ``opened``.
        """
        cdef Joint joint
        cdef Py_ssize_t at
        for at in range(len(opened) - 1, max(-1, len(opened) - 1 - LOOKED_AT), -1):
            joint = opened[at]
            if joint.topic is topic and joint.queue == queue:
                if joint.size + size <= JOINT_BYTES_MAX:
                    return joint
                break
        else:
            joint = self.staged(kind, topic, queue)
            if joint is not None and joint.size + size <= JOINT_BYTES_MAX:
                self.commits.joined()
                return joint
        joint = kind()
        joint.topic, joint.queue = topic, queue
        opened.append(joint)
        return joint

    cdef Joint staged(self, type kind, topic, Py_ssize_t queue):
        """The joint publish that is staged last for a queue; None if that is something else."""
        cdef list staged = topic.staged
        cdef Py_ssize_t at
        for at in range(len(staged) - 1, max(-1, len(staged) - 1 - LOOKED_AT), -1):
            item = staged[at]
            if item.queue == queue:
                records = item.records
                return records if type(records) is kind and (<Joint>records).parts else None
        return None

    cdef int publish(self, list opened) except -1:
        """Publish what a read has opened; it counts as one publish."""
        cdef Joint joint
        if len(opened) == 1:
            joint = opened[0]
            self.commits.publish(joint.topic, joint, 0, joint.done, joint.queue)
        elif opened:
            self.commits.hold()
            try:
                for joint in opened:
                    self.commits.publish(joint.topic, joint, 0, joint.done, joint.queue)
            finally:
                self.commits.release()
        return 0


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
