# HTTP's POST /pub.


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
        cdef Frames joint
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
            topic = self.publisher.topic(known.topic)
            if topic is None:
                break
            joint = <Frames>self.publisher.joint(Frames, topic, 0, size, opened)
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
