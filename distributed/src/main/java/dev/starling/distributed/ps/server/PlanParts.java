package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.wire.SessionMessage;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Assembles plans that arrive in parts. */
final class PlanParts {
    private static final int MAX_BYTES = 64 << 20;

    private final Map<Endpoint, byte[]> arriving = new HashMap<>();

    /**
     * Adds a part.
     *
     * @return the encoded plan if the part completes it, or {@code null}
     * @throws IOException if the part is malformed or does not follow the previous ones
     */
    byte @Nullable [] add(Endpoint from, SessionMessage.Hello hello) throws IOException {
        int total = hello.bytes();
        int at = hello.offset();
        if (total < 1 || total > MAX_BYTES || at < 0 || hello.part().length > total - at) {
            throw new IOException("a plan of " + total + " bytes is malformed");
        }
        byte[] bytes = at == 0 ? new byte[total] : arriving.get(from);
        if (bytes == null || bytes.length != total) {
            throw new IOException("the beginning of the plan is missing");
        }
        System.arraycopy(hello.part(), 0, bytes, at, hello.part().length);
        arriving.put(from, bytes);
        return at + hello.part().length == total ? arriving.remove(from) : null;
    }
}
