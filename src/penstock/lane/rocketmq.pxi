# RocketMQ's sends, in both forms of the header (RocketMQ spec 1.3, 1.4, 2.1).

cdef enum:
    SEND = 10
    SEND_V2 = 310
    SEND_BATCH = 320
    BINARY = 1
    # A frame up to its header; a binary header up to its fields, where it has no remark.
    FRAME_HEAD = 8
    FIELDS_AT = 21
    TRANSACTION_BITS = 0xC
    HOST_BITS = 0x30
    PROPERTIES_MAX = 32767
    # A stored message (RocketMQ spec 3.1).
    QUEUE_OFFSET_AT = 20
    PHYSICAL_AT = 28
    SYS_FLAG_AT = 36
    BORN_HOST_AT = 48
    # A message in a batch up to its body (RocketMQ spec 3.6).
    BATCHED_HEAD = 20
    # A batch that is stored in more is refused, or taken message by message.
    STORED_BYTES_MAX = 134217728
    NAME_END = 1
    VALUE_END = 2

cdef const char* UPPER_HEX = b"0123456789ABCDEF"
# The fields of a send under their long names, in the order of version 2's letters.
cdef const char* LONG_NAMES = (
    b"producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag "
    b"properties reconsumeTimes unitMode maxReconsumeTimes batch "
)
# Properties of which a broker makes more than to store them.
cdef const char* NOT_PLAIN = (
    b"CLUSTER TRAN_MSG DELAY POP_CK TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS "
)


cdef struct Text:
    const unsigned char* at
    Py_ssize_t size


cdef struct Send:
    # The header of a send. A field that is missing counts as empty, and that as 0.
    Text[13] fields
    uint32_t seen  # a bit for each field
    int64_t opaque


cdef struct Origin:
    # What the messages of a send share. The topic has its length before it, a host is an IP and a
    # port of 4 bytes.
    Text topic
    Text born_host
    Text store_host
    Text more  # properties that each of them gets
    int64_t sys_flag
    int64_t born_ms
    int64_t times


cdef bint is_text(Text text, const char* known) noexcept nogil:
    return place_of(text, known, 0) == 0


cdef int place_of(Text text, const char* names, char end) noexcept nogil:
    """The place of a text among names, each of which has this end; -1 if it is none of them."""
    cdef Py_ssize_t at
    cdef int place = 0
    while names[0]:
        at = 0
        # A NUL in the text does not match the one that ends the names.
        while at < text.size and names[at] and names[at] == <char>text.at[at]:
            at += 1
        if at == text.size and names[at] == end:
            return place
        while names[at] and names[at] != end:
            at += 1
        if not names[at]:
            break
        names += at + 1
        place += 1
    return -1


cdef bint number(Text text, int64_t least, int64_t most, int64_t* found) noexcept nogil:
    """Read a whole number; False if it is written in another way, or out of bounds."""
    cdef Py_ssize_t at = 0
    cdef int64_t value = 0
    cdef bint is_negative = text.size > 0 and text.at[0] == c"-"
    at = is_negative
    if text.size - at > 18 or (is_negative and text.size == 1):
        return False
    while at < text.size:
        if not c"0" <= text.at[at] <= c"9":
            return False
        value = 10 * value + text.at[at] - c"0"
        at += 1
    found[0] = -value if is_negative else value
    return least <= found[0] <= most


cdef bint noted(Send* send, bint is_long, Text name, Text value) noexcept nogil:
    """Note a field, if it is one of a send's; False if it came before."""
    cdef int place
    if is_long:
        place = place_of(name, LONG_NAMES, c" ")
    else:
        place = name.at[0] - c"a" if name.size == 1 else 13
    if not 0 <= place < 13:
        return True
    if send.seen >> place & 1:
        return False
    send.seen |= 1 << place
    send.fields[place] = value
    return True


cdef bint next_field(const unsigned char** at, const unsigned char* end, Text* name, Text* value
                     ) noexcept nogil:
    """Read a field of a binary header and step behind it; False if it is cut short, or nameless."""
    cdef const unsigned char* place = at[0]
    if end - place < 2:
        return False
    name.at, name.size = place + 2, read_short(place)
    if not name.size or end - name.at - name.size < 4:
        return False
    place = name.at + name.size
    value.at, value.size = place + 4, read_int(place)
    if not 0 <= value.size <= end - value.at:
        return False
    at[0] = value.at + value.size
    return True


cdef bint read_binary(Send* send, const unsigned char* head, Py_ssize_t size) noexcept nogil:
    """Read a header in RocketMQ's own serialisation; False if it is not that of a plain send."""
    cdef const unsigned char* at = head + FIELDS_AT
    cdef int code
    cdef Text name, value
    if size < FIELDS_AT or read_int(head + 17) != size - FIELDS_AT:
        return False
    code = read_short(head)
    # Neither a flag nor a remark.
    if code not in (SEND, SEND_V2, SEND_BATCH) or read_int(head + 9) or read_int(head + 13):
        return False
    send.opaque = read_int(head + 5)
    while at < head + size:
        if not next_field(&at, head + size, &name, &value):
            return False
        if not noted(send, code == SEND, name, value):
            return False
    return True


def fields_of(bytes data not None):
    """The fields of a binary header; None if they are left to Python: not plain ASCII, or cut short."""
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef const unsigned char* end = at + PyBytes_GET_SIZE(data)
    cdef Text name, value
    cdef dict found = {}
    if not is_ascii(at, end - at):
        return None
    while at < end:
        if not next_field(&at, end, &name, &value):
            return None
        found[(<const char*>name.at)[: name.size].decode("ascii")] = (
            (<const char*>value.at)[: value.size].decode("ascii")
        )
    return found


cdef struct Json:
    const unsigned char* at
    const unsigned char* end


cdef bint skip(Json* json, unsigned char expected) noexcept nogil:
    if json.at < json.end and json.at[0] == expected:
        json.at += 1
        return True
    return False


cdef bint quoted(Json* json, Text* text, bint may_escape) noexcept nogil:
    """Read a string of plain ASCII; escapes, which are left as they are, only if they may be."""
    cdef unsigned char byte
    if not skip(json, c'"'):
        return False
    text.at = json.at
    while json.at < json.end:
        byte = json.at[0]
        if byte == c'"':
            text.size = json.at - text.at
            json.at += 1
            return True
        if not 0x20 <= byte < 0x7F or (byte == c"\\" and not may_escape):
            return False
        # A quote behind an escape is none; which escapes there are is seen when they are replaced.
        json.at += 2 if byte == c"\\" else 1
    return False


cdef bint plain_int(Json* json, int64_t* found) noexcept nogil:
    cdef Text text
    text.at = json.at
    while json.at < json.end and (json.at[0] == c"-" or c"0" <= json.at[0] <= c"9"):
        json.at += 1
    text.size = json.at - text.at
    # JSON has no leading zeros.
    if not text.size or (text.size > 1 and text.at[0] == c"0"):
        return False
    return number(text, INT32_MIN, INT32_MAX, found)


cdef bint read_fields(Send* send, Json* json, bint is_long) noexcept nogil:
    cdef Text name, value
    if not skip(json, c"{"):
        return False
    while quoted(json, &name, False) and skip(json, c":"):
        # The ends of names and values are escaped; in other fields nothing is, as a rule.
        if not quoted(json, &value, is_text(name, b"properties" if is_long else b"i")):
            return False
        if not noted(send, is_long, name, value):
            return False
        if not skip(json, c","):
            return skip(json, c"}")
    return False


cdef bint read_json(Send* send, const unsigned char* head, Py_ssize_t size) noexcept nogil:
    """Read a header in JSON as Java's clients write it; False if it is written in another way, or
    not that of a plain send.
    """
    cdef Json json
    cdef Text name
    cdef int64_t code, value
    json.at, json.end = head + 8, head + size
    if size < 8 or memcmp(head, b'{"code":', 8) or not plain_int(&json, &code):
        return False
    if code not in (SEND, SEND_V2, SEND_BATCH):
        return False
    while skip(&json, c","):
        if not quoted(&json, &name, False) or not skip(&json, c":"):
            return False
        if is_text(name, b"extFields"):
            if not read_fields(send, &json, code == SEND):
                return False
        elif is_text(name, b"opaque"):
            if not plain_int(&json, &send.opaque):
                return False
        elif is_text(name, b"flag"):
            if not plain_int(&json, &value) or value:
                return False
        elif is_text(name, b"version"):
            if not plain_int(&json, &value):
                return False
        elif is_text(name, b"language") or is_text(name, b"serializeTypeCurrentRPC"):
            if not quoted(&json, &name, False):
                return False
        else:
            return False
    return skip(&json, c"}") and json.at == json.end


cdef Py_ssize_t unescaped(Text text, unsigned char* found) noexcept nogil:
    """Replace the ends of names and values, the only escapes of plain properties; the size, or -1 if
    there are others.
    """
    cdef Py_ssize_t at = 0, size = 0
    while at < text.size:
        if text.at[at] == c"\\":
            if text.size - at < 6 or memcmp(text.at + at, b"\\u000", 5):
                return -1
            found[size] = text.at[at + 5] - c"0"
            if found[size] not in (NAME_END, VALUE_END):
                return -1
            at += 6
        else:
            found[size] = text.at[at]
            at += 1
        size += 1
    return size


cdef bint are_plain(Text text, Text* wait) noexcept nogil:
    """True if properties are only stored, all but one, ``wait``, which says whether to wait for a
    slave.
    """
    cdef const unsigned char* at = text.at
    cdef const unsigned char* end = text.at + text.size
    cdef const unsigned char* name_end
    cdef const unsigned char* value_end
    cdef Text name
    wait.size = 0
    while at < end:
        value_end = <const unsigned char*>memchr(at, VALUE_END, end - at)
        if value_end == NULL:
            value_end = end
        name_end = <const unsigned char*>memchr(at, NAME_END, value_end - at)
        if name_end == NULL or name_end == at:
            return False
        name.at, name.size = at, name_end - at
        if place_of(name, NOT_PLAIN, c" ") >= 0:
            return False
        if is_text(name, b"WAIT"):
            if wait.size:
                return False
            wait.at, wait.size = at, min(value_end + 1, end) - at
        at = value_end + 1
    return True


cdef bint batched(const unsigned char* at, Py_ssize_t left, Text* text) noexcept nogil:
    """Find the properties of the message that begins there in a batch; False if its sizes do not
    fit together.
    """
    cdef Py_ssize_t size, body_size
    if left < BATCHED_HEAD + 2:
        return False
    size, body_size = read_int(at), read_int(at + 16)
    if size > left or not 0 <= body_size <= size - BATCHED_HEAD - 2:
        return False
    text.at = at + BATCHED_HEAD + body_size + 2
    text.size = read_short(text.at - 2)
    return BATCHED_HEAD + body_size + 2 + text.size == size


cdef Py_ssize_t batch_size(Origin* origin, const unsigned char* body, Py_ssize_t size) noexcept nogil:
    """The most bytes that the messages of a batch are stored in; 0 if one of them is not plain."""
    cdef Py_ssize_t at = 0, total = 0
    cdef Text text
    while at < size:
        if not batched(body + at, size - at, &text) or not is_ascii(text.at, text.size):
            return 0
        text.size += 1 + origin.more.size
        if text.size > PROPERTIES_MAX:
            return 0
        total += stored_size(origin, read_int(body + at + 16), text.size)
        at += read_int(body + at)
    return total


cdef inline Py_ssize_t stored_size(Origin* origin, Py_ssize_t body, Py_ssize_t text) noexcept nogil:
    return (
        72 + origin.born_host.size + origin.store_host.size + body + origin.topic.size + 2 + text
    )


cdef inline Text text_of(bytes data):
    cdef Text text
    text.at, text.size = <const unsigned char*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
    return text


cdef bint is_ascii(const unsigned char* at, Py_ssize_t size) noexcept nogil:
    cdef unsigned char bits = 0
    cdef Py_ssize_t place
    for place in range(size):
        bits |= at[place]
    return bits < 0x80


@cython.final
cdef class Stored(Joint):
    """Messages as RocketMQ's consumers pull them, without their offsets and the time of storing."""

    cdef public int64_t queue_offset
    cdef readonly int64_t physical_offset
    cdef readonly Py_ssize_t largest  # of the bodies
    cdef readonly int64_t store_ms
    cdef int64_t base
    cdef object sends
    cdef object began_ns

    dialect = 1

    cdef int add(self, Origin* origin, int32_t flag, const unsigned char* body,
                 Py_ssize_t body_size, Text text, Text cut) except -1:
        """Add a message with properties, without those that are ``cut`` out of them."""
        cdef Py_ssize_t before = cut.at - text.at if cut.size else text.size
        cdef Py_ssize_t behind = text.size - before - cut.size
        cdef const unsigned char* last = text.at + before - 1
        if behind:
            last = text.at + text.size - 1
        cdef bint is_open = before + behind > 0 and last[0] != VALUE_END
        cdef Py_ssize_t text_size = before + behind + is_open + origin.more.size
        cdef Py_ssize_t size = stored_size(origin, body_size, text_size)
        cdef unsigned char* frame = self.room(size)
        cdef unsigned char* at
        cdef int64_t hosts = 0x10 * (origin.born_host.size > 8) | 0x20 * (origin.store_host.size > 8)
        write_int(frame, <uint32_t>size)
        # One byte of length before a topic of version 1.
        memcpy(frame + 4, b"\xDA\xA3\x20\xA7" if origin.topic.size <= 128 else b"\xDA\xA3\x20\xAB", 4)
        write_int(frame + 8, <uint32_t>(<int64_t>crc32(body[:body_size]) & 0x7FFFFFFF))
        write_int(frame + 12, <uint32_t>self.queue)
        write_int(frame + 16, <uint32_t>flag)
        write_int(frame + SYS_FLAG_AT, <uint32_t>(origin.sys_flag & ~<int64_t>HOST_BITS | hosts))
        write_long(frame + 40, <uint64_t>origin.born_ms)
        at = put(frame + BORN_HOST_AT, origin.born_host) + 8
        at = put(at, origin.store_host)
        write_int(at, <uint32_t>origin.times)
        write_long(at + 4, 0)
        write_int(at + 12, <uint32_t>body_size)
        memcpy(at + 16, body, body_size)
        at = put(at + 16 + body_size, origin.topic)
        at[0], at[1] = text_size >> 8, text_size & 0xFF
        memcpy(at + 2, text.at, before)
        at += 2 + before
        memcpy(at, text.at + text.size - behind, behind)
        at += behind
        if is_open:
            at[0] = VALUE_END
            at += 1
        put(at, origin.more)
        self.largest = max(self.largest, body_size)
        return self.added(size, body_size)

    cdef Py_ssize_t add_batch(self, Origin* origin, const unsigned char* body, Py_ssize_t size
                              ) except -1:
        """Add the messages of a batch that ``batch_size`` has looked through; their count."""
        cdef Py_ssize_t at = 0, count = 0
        cdef Text text, nothing
        nothing.size = 0
        while at < size:
            batched(body + at, size - at, &text)
            self.add(origin, read_int(body + at + 12), body + at + BATCHED_HEAD,
                     read_int(body + at + 16), text, nothing)
            at += read_int(body + at)
            count += 1
        return count

    def encode(self, int64_t first_id, int64_t timestamp_ns):
        """The messages with these offsets, and their positions if their sizes differ."""
        cdef unsigned char* frame = <unsigned char*>PyByteArray_AS_STRING(self.buffer)
        cdef unsigned char* end = frame + self.size
        cdef int64_t offset = self.queue_offset, physical = self.base + first_id
        self.physical_offset, self.store_ms = physical, timestamp_ns // 1000000
        while frame < end:
            write_long(frame + QUEUE_OFFSET_AT, <uint64_t>offset)
            write_long(frame + PHYSICAL_AT, <uint64_t>physical)
            # An address of IPv6 has 12 bytes more.
            write_long(frame + (68 if frame[SYS_FLAG_AT + 3] & 0x10 else 56), <uint64_t>self.store_ms)
            offset += 1
            physical += 1
            frame += read_int(frame)
        return self.encoded()

    def done(self, failure):
        """Answer the producers. Each learns the places of its messages."""
        cdef Part part
        cdef list parts = self.parts
        cdef int64_t offset = self.queue_offset, physical = self.physical_offset
        self.parts = []
        if failure is None and self.began_ns:
            self.sends.stats.put_ends(self.topic.name, self.queue, self.began_ns)
        for part in parts:
            (<Sends>part.producer).sent(part, self.queue, offset, physical, failure)
            offset += part.count
            physical += part.count


def stored_of(bytes body not None, bytes more not None, bytes topic not None, bytes born_host not None,
              bytes store_host not None, Py_ssize_t queue, int64_t sys_flag, int64_t born_ms,
              int64_t times, int64_t base):
    """The messages of a batch as they are to be stored; None if one of them is not plain."""
    cdef Origin origin
    cdef Stored stored = Stored()
    cdef Text text = text_of(body)
    origin.topic, origin.more = text_of(topic), text_of(more)
    origin.born_host, origin.store_host = text_of(born_host), text_of(store_host)
    origin.sys_flag, origin.born_ms, origin.times = sys_flag, born_ms, times
    cdef Py_ssize_t size = batch_size(&origin, text.at, text.size)
    if not 0 < size <= STORED_BYTES_MAX:
        return None
    stored.queue, stored.base = queue, base
    stored.add_batch(&origin, text.at, text.size)
    return stored


cdef class Sends(Producer):
    """The intake of a connection that speaks RocketMQ's remoting (``rocketmq.remoting``)."""

    cdef public object reader
    cdef public object transport
    cdef public list left
    cdef public list outgoing
    cdef public bint has_begun
    cdef public bint is_congested
    cdef public bint is_reading
    cdef public bint is_active
    cdef public bint flushes_soon
    cdef public object serialization
    cdef object sends
    cdef object topics
    cdef Py_ssize_t body_max
    cdef bytes cluster
    cdef tuple answers  # the parts of an answer that are always the same, by serialisation
    cdef bytes born_host
    cdef bytes store_host
    cdef bytes id_digits
    cdef bytearray answered  # the answers that leave next, at the end of ``outgoing``
    cdef bytearray scratch
    cdef Py_ssize_t owed
    cdef dict routes  # of topics' names, as long as the table has this version
    cdef object version
    cdef bytes name  # of the newest topic, and what is known of it:
    cdef object topic
    cdef bytes topic_part
    cdef int64_t base
    cdef Py_ssize_t queues

    def take_plain(self, Publisher publisher, sends, born_host):
        self.publisher = publisher
        self.sends = sends
        self.topics = sends.topics
        self.cluster = sends.cluster_property.encode()
        self.born_host, self.store_host = born_host, sends.store_host
        self.id_digits = sends.id_digits
        self.scratch = bytearray()
        self.routes = {}
        self.name = None

    cdef bint takes_plain(self) except -1:
        self.is_active = True
        return self.has_begun and not (
            self.left or self.is_congested or self.reader.unread or self.transport.is_closing()
        )

    cdef Py_ssize_t take(self, bytes data) except -1:
        cdef Py_ssize_t at = 0, size
        cdef list opened = []
        cdef bint is_reading = self.is_reading
        # Administrators change the broker's properties while it runs.
        self.body_max, self.answers = self.sends.settings.max_message_size, self.sends.answers
        version = self.topics.version.counter
        if version != self.version:
            self.version, self.name = version, None
            self.routes.clear()
        while (size := self.take_send(data, at, opened)):
            at += size
        if at:
            self.is_reading = True
            self.publisher.publish(opened)
            self.is_reading = is_reading
            if self.owed:
                # Behind the commit of this pass, whose answers then leave with one write.
                self.flush_soon()
            elif not self.flushes_soon and at == PyBytes_GET_SIZE(data):
                self.flush()
        return at

    cdef Py_ssize_t take_send(self, bytes data, Py_ssize_t at, list opened) except -1:
        """Take the send that begins there; its size, or 0 if it is not plain, or not all there."""
        cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data) + at
        cdef Py_ssize_t left = PyBytes_GET_SIZE(data) - at, size, head_size, body_size, count
        cdef int64_t queue = 0, flag = 0, ignored = 0
        cdef const unsigned char* body
        cdef Send send
        cdef Origin origin
        cdef Text text, wait
        cdef bytes shared
        cdef Stored joint
        cdef int kind
        if left < FRAME_HEAD:
            return 0
        size = 4 + <Py_ssize_t>read_int(start)
        kind, head_size = start[4], read_int(start + 4) & 0xFFFFFF
        body_size = size - FRAME_HEAD - head_size
        if size > left or not 0 <= body_size <= self.body_max:
            return 0
        send.seen = 0
        send.opaque = 0
        for count in range(13):
            send.fields[count].size = 0
            send.fields[count].at = start
        body = start + FRAME_HEAD
        if kind == BINARY:
            if not read_binary(&send, body, head_size):
                return 0
        elif kind or not read_json(&send, body, head_size):
            return 0
        body += head_size
        if not (
            number(send.fields[3], INT32_MIN, INT32_MAX, &ignored)
            and number(send.fields[4], 0, INT32_MAX, &queue)
            and number(send.fields[5], 0, INT32_MAX, &origin.sys_flag)
            and number(send.fields[6], INT64_MIN, INT64_MAX, &origin.born_ms)
            and number(send.fields[7], INT32_MIN, INT32_MAX, &flag)
            and number(send.fields[9], INT32_MIN, INT32_MAX, &origin.times)
            and number(send.fields[11], INT32_MIN, INT32_MAX, &ignored)
        ) or origin.sys_flag & TRANSACTION_BITS or not self.leads_to(send.fields[1], queue):
            return 0
        text = send.fields[8]
        if text.size > PROPERTIES_MAX or not is_ascii(text.at, text.size):
            return 0
        if kind != BINARY:
            if text.size > len(self.scratch):
                PyByteArray_Resize(self.scratch, text.size)
            text.size = unescaped(text, <unsigned char*>PyByteArray_AS_STRING(self.scratch))
            text.at = <const unsigned char*>PyByteArray_AS_STRING(self.scratch)
            if text.size < 0:
                return 0
        origin.topic, origin.born_host = text_of(self.topic_part), text_of(self.born_host)
        origin.store_host, origin.more = text_of(self.store_host), text_of(self.cluster)
        if is_text(send.fields[12], b"true"):
            # A receipt would have to be cut out of each message.
            if data.find(b"POP_CK\x01", at + size - body_size, at + size) >= 0:
                return 0
            shared = self.sends.shared_text(text.at[: text.size].decode()).encode()
            origin.more = text_of(shared)
            count = batch_size(&origin, body, body_size)
            if not 0 < count <= JOINT_BYTES_MAX:
                return 0
            joint = self.joint(queue, count, opened)
            count = joint.add_batch(&origin, body, body_size)
        elif send.fields[12].size and not is_text(send.fields[12], b"false"):
            return 0
        elif text.size + 1 + origin.more.size > PROPERTIES_MAX or not are_plain(text, &wait):
            return 0
        else:
            count = stored_size(&origin, body_size, text.size + 1 + origin.more.size)
            joint = self.joint(queue, count, opened)
            joint.add(&origin, <int32_t>flag, body, body_size, text, wait)
            count = 1
        joint.parts.append(new_part(self, kind, send.opaque, count))
        self.owed += 1
        self.serialization = self.sends.serializations[kind]
        return size

    cdef Stored joint(self, Py_ssize_t queue, Py_ssize_t size, list opened):
        """The joint publish for a send to a queue."""
        cdef Stored joint
        joint = <Stored>self.publisher.joint(Stored, self.topic, queue, size, opened)
        if joint.sends is None:
            joint.sends, joint.base = self.sends, self.base
            joint.began_ns = self.sends.stats.put_begins()
        return joint

    cdef bint leads_to(self, Text name, Py_ssize_t queue) except -1:
        """True if a message for this queue of a topic may be published now without more ado."""
        if self.name is not None and self.topic.exiting:
            self.name = None
            self.routes.clear()
        if (
            self.name is None
            or PyBytes_GET_SIZE(self.name) != name.size
            or memcmp(PyBytes_AS_STRING(self.name), name.at, name.size)
        ):
            self.name = name.at[: name.size]
            route = self.routes.get(self.name)
            if route is None:
                route = self.sends.route(self.name)
                if route is None:
                    self.name = None
                    return False
                self.routes[self.name] = route
            self.topic, self.topic_part, self.base, self.queues = route
        return queue < self.queues and self.topic.joins

    cdef int sent(self, Part part, Py_ssize_t queue, int64_t offset, int64_t physical, failure
                  ) except -1:
        """Answer a send with the places of its messages."""
        self.owed -= 1
        if failure is not None:
            self.send(self.sends.failed(part.what, part.turn, part.count, queue, offset, physical,
                                        failure))
            return 0
        cdef tuple pieces = self.answers[part.what]
        cdef Py_ssize_t fixed = 0, digits = PyBytes_GET_SIZE(self.id_digits) + 17, start, ids, place
        for piece in pieces:
            fixed += PyBytes_GET_SIZE(<bytes>piece)
        last = self.outgoing[len(self.outgoing) - 1] if self.outgoing else None
        if last is None or last is not self.answered:
            self.answered = bytearray()
            self.outgoing.append(self.answered)
        start = len(self.answered)
        PyByteArray_Resize(self.answered, start + fixed + digits * part.count + 80)
        cdef unsigned char* first = <unsigned char*>PyByteArray_AS_STRING(self.answered) + start
        cdef unsigned char* at = put(first, text_of(<bytes>pieces[0]))
        cdef bint is_binary = part.what == BINARY
        if is_binary:
            write_int(at, <uint32_t>part.turn)
            at = put(at + 4, text_of(<bytes>pieces[1]))
            write_int(at, <uint32_t>(digits * part.count - 1))
            at += 4
        for ids in range(part.count):
            if ids:
                at[0] = c","
                at += 1
            at = put(at, text_of(self.id_digits))
            for place in range(15, -1, -1):
                at[15 - place] = UPPER_HEX[<uint64_t>(physical + ids) >> (4 * place) & 15]
            at += 16
        at = put(at, text_of(<bytes>pieces[2]))
        at = put_number(at, queue, is_binary)
        at = put(at, text_of(<bytes>pieces[3]))
        at = put_number(at, offset, is_binary)
        at = put(at, text_of(<bytes>pieces[4]))
        if not is_binary:
            at = put_number(at, part.turn, False)
            at = put(at, text_of(<bytes>pieces[5]))
        cdef Py_ssize_t size = at - first
        write_int(first, <uint32_t>(size - 4))
        write_int(first + 4, <uint32_t>(part.what << 24 | size - FRAME_HEAD))
        if is_binary:
            write_int(first + FRAME_HEAD + FIELDS_AT - 4, <uint32_t>(size - FRAME_HEAD - FIELDS_AT))
        PyByteArray_Resize(self.answered, start + size)
        self.is_active = True
        if not self.is_reading and not self.flushes_soon:
            self.flush_soon()
        return 0


cdef inline unsigned char* put(unsigned char* at, Text text) noexcept nogil:
    memcpy(at, text.at, text.size)
    return at + text.size


cdef unsigned char* put_number(unsigned char* at, int64_t number, bint is_sized) noexcept nogil:
    """Write a number in digits, behind their count if that is to be told."""
    cdef unsigned char[20] digits
    cdef int size = 0
    cdef uint64_t rest = <uint64_t>(-number if number < 0 else number)
    while True:
        digits[size] = c"0" + rest % 10
        size += 1
        rest //= 10
        if not rest:
            break
    if number < 0:
        digits[size] = c"-"
        size += 1
    if is_sized:
        write_int(at, <uint32_t>size)
        at += 4
    while size:
        size -= 1
        at[0] = digits[size]
        at += 1
    return at
