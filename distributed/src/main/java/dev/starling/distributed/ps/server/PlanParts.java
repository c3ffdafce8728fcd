package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.wire.SessionMessage;
import dev.starling.transport.Endpoint;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Assembles plans that arrive in parts, in order. Needs memory for what has arrived only; the parts of a process whose
 * connection has ended are dropped when the next part of any process arrives.
 */
final class PlanParts {
    private static final int MAX_BYTES = 64 << 20;

    private final long maxPendingBytes;
    private final Map<Endpoint, ByteArrayOutputStream> arriving = new HashMap<>();

    PlanParts() {
        this(4L * MAX_BYTES);
    }

    /** Creates a place for incomplete plans of a number of bytes together. */
    PlanParts(long maxPendingBytes) {
        this.maxPendingBytes = maxPendingBytes;
    }

    /**
     * Adds a part. One that does not follow the previous part, as where the group has dropped early messages, is
     * ignored, and those before it are dropped: a worker that gets no answer sends all parts again.
     *
     * @return the encoded plan if the part completes it, or {@code null}
     * @throws IOException if the part is malformed, or too many plans are incomplete
     */
    byte @Nullable [] add(Endpoint from, SessionMessage.Hello hello) throws IOException {
        int total = hello.bytes();
        int at = hello.offset();
        byte[] part = hello.part();
        arriving.keySet().removeIf(each -> each.state() != Endpoint.State.CONNECTED
                && each.state() != Endpoint.State.CONNECTING);
        ByteArrayOutputStream bytes = at == 0 ? new ByteArrayOutputStream() : arriving.get(from);
        arriving.remove(from);
        if (total < 1 || total > MAX_BYTES || at < 0 || part.length > total - at) {
            throw new IOException("a plan of " + total + " bytes is malformed");
        }
        if (bytes == null || bytes.size() != at) {
            return null;
        }
        if (pendingBytes() + at + part.length > maxPendingBytes) {
            throw new IOException("too many plans arrive at a time");
        }
        bytes.writeBytes(part);
        if (bytes.size() == total) {
            return bytes.toByteArray();
        }
        arriving.put(from, bytes);
        return null;
    }

    /** Returns the number of bytes that have arrived of incomplete plans. */
    long pendingBytes() {
        return arriving.values().stream().mapToLong(ByteArrayOutputStream::size).sum();
    }
}
