# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""Plain publishes in compiled code: joint publishes, and what a connection reads of them.

Nothing here does I/O or looks at a clock. Every pointer stays between the two ends of a buffer that
is checked before each step; sizes that a client states are compared with what has come, and with
the limits, before they are used.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from zlib import crc32


cdef inline int32_t read_int(const unsigned char* at) noexcept nogil:
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline int read_short(const unsigned char* at) noexcept nogil:
    return at[0] << 8 | at[1]


cdef inline void write_int(unsigned char* at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = value >> 16 & 0xFF
    at[2] = value >> 8 & 0xFF
    at[3] = value & 0xFF


cdef inline void write_long(unsigned char* at, uint64_t value) noexcept nogil:
    write_int(at, <uint32_t>(value >> 32))
    write_int(at + 4, <uint32_t>value)


include "joint.pxi"
include "nsq.pxi"
include "http.pxi"
include "rocketmq.pxi"
