package dev.starling.transport;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * What a peer needs to know to write into a {@link MemoryRegion}. Sent in a message of the user's, as bytes.
 *
 * @param region number of the region in its process
 * @param token random; who does not know it cannot write
 * @param bytes size of the region
 * @param process that the memory belongs to, or 0 if it cannot be mapped
 * @param descriptor of the memory's file in that process
 * @param remote what the wire's own remote writes need, or empty
 */
public record RegionKey(long region, long token, long bytes, long process, int descriptor, byte[] remote) {
    private static final int FIXED = 40;
    private static final int MAX_REMOTE = 4096;

    /** Returns the key as bytes. */
    public byte[] encode() {
        return ByteBuffer.allocate(FIXED + remote.length).order(ByteOrder.LITTLE_ENDIAN).putLong(region).putLong(token)
                .putLong(bytes).putLong(process).putInt(descriptor).putInt(remote.length).put(remote).array();
    }

    /**
     * Reads a key.
     *
     * @throws TransportException if these bytes are no key
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
