package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpContext;
import org.openucx.jucx.ucp.UcpMemMapParams;
import org.openucx.jucx.ucp.UcpMemory;
import org.openucx.jucx.ucs.UcsConstants;

/** Memory registered with UCX, into which the network writes by itself. */
final class UcxRegistration implements RemoteWrites.Registration {
    private final UcpMemory memory;
    private final byte[] key;
    private final Consumer<UcxRegistration> onClose;
    private boolean closed;

    UcxRegistration(UcpContext context, MemorySegment segment, Consumer<UcxRegistration> onClose) {
        this.onClose = onClose;
        UcpMemory mapped = null;
        try {
            mapped = context.memoryMap(new UcpMemMapParams().setAddress(segment.address())
                    .setLength(segment.byteSize()).setMemoryType(UcsConstants.MEMORY_TYPE.UCS_MEMORY_TYPE_HOST));
            key = new UcxKey(segment.byteSize(), segment.address(), mapped.getRemoteKeyBuffer()).encode();
            memory = mapped;
        } catch (UcxException e) {
            if (mapped != null) {
                mapped.deregister();
            }
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
            onClose.accept(this);
        }
    }
}
