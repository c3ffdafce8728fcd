package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpContext;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpMemMapParams;
import org.openucx.jucx.ucp.UcpMemory;
import org.openucx.jucx.ucp.UcpRemoteKey;
import org.openucx.jucx.ucs.UcsConstants;

/** Memory registered with UCX. Its key: address, length, UCX's packed key. */
final class UcxRegistration implements RemoteWrites.Registration {
    private static final int PREFIX = 2 * Long.BYTES;

    private final UcpMemory memory;
    private final byte[] key;
    private boolean closed;

    UcxRegistration(UcpContext context, MemorySegment segment) {
        if (!segment.isNative() || segment.byteSize() == 0) {
            throw new TransportException(TransportException.Problem.ARGUMENT,
                    "only native memory of at least 1 byte can be registered, got " + segment, "");
        }
        try {
            memory = context.memoryMap(new UcpMemMapParams().setAddress(segment.address())
                    .setLength(segment.byteSize()).setMemoryType(UcsConstants.MEMORY_TYPE.UCS_MEMORY_TYPE_HOST));
            ByteBuffer packed = memory.getRemoteKeyBuffer();
            key = new byte[PREFIX + packed.remaining()];
            ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).putLong(segment.address())
                    .putLong(segment.byteSize()).put(packed);
        } catch (UcxException e) {
            throw new TransportException(TransportException.Problem.NO_ROOM, "UCX cannot register "
                    + segment.byteSize() + " bytes: " + e.getMessage(), "raise the limit of locked memory", e);
        }
    }

    @Override
    public byte[] key() {
        return key.clone();
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            memory.deregister();
        }
    }

    static RemoteWrites.Target attach(byte[] key, UcpEndpoint endpoint, Puts puts) {
        if (key.length <= PREFIX || key.length > RemoteWrites.MAX_KEY_LENGTH) {
            throw noKey(key, null);
        }
        ByteBuffer bytes = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
        long address = bytes.getLong();
        long length = bytes.getLong();
        // UCX reads the packed key without knowing its length: what follows is room that it may read.
        ByteBuffer packed = ByteBuffer.allocateDirect(2 * RemoteWrites.MAX_KEY_LENGTH).put(bytes).clear();
        try {
            return new UcxTarget(endpoint.unpackRemoteKey(packed), address, length, puts);
        } catch (UcxException e) {
            throw noKey(key, e);
        }
    }

    private static TransportException noKey(byte[] key, Throwable cause) {
        return new TransportException(TransportException.Problem.ARGUMENT, "these " + key.length
                + " bytes are no key of memory that this network can write into", "", cause);
    }

    /** Memory that a peer registered. */
    private record UcxTarget(UcpRemoteKey key, long address, long length, Puts puts) implements RemoteWrites.Target {
        UcxTarget {
            puts.open(key);
        }

        @Override
        public int put(long offset, MemorySegment source, RemoteWrites.Completion completion, long tag) {
            if (offset < 0 || offset > length - source.byteSize()) {
                throw new TransportException(TransportException.Problem.ARGUMENT, "[" + offset + ", "
                        + (offset + source.byteSize()) + ") is not within the target's " + length + " bytes", "");
            }
            return puts.put(key, address + offset, source, completion, tag);
        }

        @Override
        public void close() {
            puts.close(key);
        }
    }
}
