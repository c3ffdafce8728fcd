package dev.starling.transport.frame;

import org.agrona.DirectBuffer;

/**
 * XXH64: a 64-bit hash that runs at memory speed in plain Java and takes a seed. (Collet, xxHash specification 0.1.1)
 * Seeded with a session's key, it distinguishes frames of that session from corrupted and foreign ones. It is not a
 * cipher: frames that attackers can both read and forge need encryption, or a tunnel.
 */
public final class Checksum {
    private static final long P1 = 0x9E3779B185EBCA87L;
    private static final long P2 = 0xC2B2AE3D27D4EB4FL;
    private static final long P3 = 0x165667B19E3779F9L;
    private static final long P4 = 0x85EBCA77C2B2AE63L;
    private static final long P5 = 0x27D4EB2F165667C5L;

    private Checksum() { }

    /** Returns the hash of bytes of a buffer. */
    public static long of(long seed, DirectBuffer buffer, int offset, int length) {
        int at = offset;
        int end = offset + length;
        long h;
        if (length >= 32) {
            long a = seed + P1 + P2;
            long b = seed + P2;
            long c = seed;
            long d = seed - P1;
            for (; at <= end - 32; at += 32) {
                a = round(a, buffer.getLong(at));
                b = round(b, buffer.getLong(at + 8));
                c = round(c, buffer.getLong(at + 16));
                d = round(d, buffer.getLong(at + 24));
            }
            h = Long.rotateLeft(a, 1) + Long.rotateLeft(b, 7) + Long.rotateLeft(c, 12) + Long.rotateLeft(d, 18);
            h = merge(merge(merge(merge(h, a), b), c), d);
        } else {
            h = seed + P5;
        }
        return rest(h + length, buffer, at, end);
    }

    private static long rest(long start, DirectBuffer buffer, int from, int end) {
        long h = start;
        int at = from;
        for (; at <= end - 8; at += 8) {
            h = Long.rotateLeft(h ^ round(0, buffer.getLong(at)), 27) * P1 + P4;
        }
        if (at <= end - 4) {
            h = Long.rotateLeft(h ^ (buffer.getInt(at) & 0xFFFF_FFFFL) * P1, 23) * P2 + P3;
            at += 4;
        }
        for (; at < end; at++) {
            h = Long.rotateLeft(h ^ (buffer.getByte(at) & 0xFF) * P5, 11) * P1;
        }
        h = (h ^ h >>> 33) * P2;
        h = (h ^ h >>> 29) * P3;
        return h ^ h >>> 32;
    }

    private static long round(long accumulator, long input) {
        return Long.rotateLeft(accumulator + input * P2, 31) * P1;
    }

    private static long merge(long h, long accumulator) {
        return (h ^ round(0, accumulator)) * P1 + P4;
    }
}
