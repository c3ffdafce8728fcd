package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.wire.Message;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.agrona.DirectBuffer;

/** Assembles plans that arrive in parts: total length, offset of the part, bytes. */
final class PlanParts {
    private static final int MAX_BYTES = 64 << 20;

    private final Map<Endpoint, byte[]> arriving = new HashMap<>();

    /**
     * Adds a part.
     *
     * @return the encoded plan if the part completes it, or {@code null}
     * @throws IOException if the part is malformed or does not follow the previous ones
     */
    byte[] add(Endpoint from, DirectBuffer buffer, int offset, int length) throws IOException {
        int total = length < 8 ? -1 : buffer.getInt(offset, Message.ORDER);
        int at = total < 0 ? -1 : buffer.getInt(offset + 4, Message.ORDER);
        if (total < 1 || total > MAX_BYTES || at < 0 || length - 8 > total - at) {
            throw new IOException("a plan of " + total + " bytes is malformed");
        }
        byte[] bytes = at == 0 ? new byte[total] : arriving.get(from);
        if (bytes == null || bytes.length != total) {
            throw new IOException("the beginning of the plan is missing");
        }
        buffer.getBytes(offset + 8, bytes, at, length - 8);
        arriving.put(from, bytes);
        return at + length - 8 == total ? arriving.remove(from) : null;
    }
}
