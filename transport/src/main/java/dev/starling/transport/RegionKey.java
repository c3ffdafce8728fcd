package dev.starling.transport;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The data that a peer needs for writing into a {@link MemoryRegion}. The application sends it, encoded as bytes, in a
 * message.
 *
 * @param region number of the region in its process
 * @param token random number; a write without it is refused
 * @param bytes size of the region
 * @param process id of the process that owns the memory, or 0 if the memory cannot be mapped
 * @param descriptor file descriptor of the memory in that process
 * @param remote key of the wire's own remote writes, or empty
 */
public record RegionKey(long region, long token, long bytes, long process, int descriptor, byte[] remote) {
    private static final int FIXED = 40;
    private static final int MAX_REMOTE = 4096;

    /** Encodes the key as bytes. */
    public byte[] encode() {
        return ByteBuffer.allocate(FIXED + remote.length).order(ByteOrder.LITTLE_ENDIAN).putLong(region).putLong(token)
                .putLong(bytes).putLong(process).putInt(descriptor).putInt(remote.length).put(remote).array();
    }

    /**
     * Decodes a key.
     *
     * @throws TransportException if the bytes are not a key
     */
    public static RegionKey decode(byte[] encoded) {
        try {
            ByteBuffer in = ByteBuffer.wrap(encoded).order(ByteOrder.LITTLE_ENDIAN);
            long region = in.getLong();
            long token = in.getLong();
            long bytes = in.getLong();
            long process = in.getLong();
            int descriptor = in.getInt();
            int length = in.getInt();
            if (bytes < 0 || process < 0 || descriptor < 0 || length != in.remaining() || length > MAX_REMOTE) {
                throw new TransportException(TransportException.Problem.ARGUMENT, "not the key of a memory region", "");
            }
            byte[] remote = new byte[length];
            in.get(remote);
            return new RegionKey(region, token, bytes, process, descriptor, remote);
        } catch (BufferUnderflowException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "not the key of a memory region: only "
                    + encoded.length + " bytes", "", e);
        }
    }
}
