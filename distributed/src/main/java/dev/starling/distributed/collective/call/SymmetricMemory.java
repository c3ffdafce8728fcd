package dev.starling.distributed.collective.call;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import java.lang.foreign.MemorySegment;
import java.util.function.BiFunction;

/**
 * Registered memory of the same size on every rank. It is set up in three steps, so that the group's thread never
 * waits: each rank registers its memory and sends the key; opens the other ranks' memory by their keys and sends which
 * it could map; and decides from all ranks' answers whether the memory is used directly ({@link #settle}).
 */
public final class SymmetricMemory implements SymmetricBuffer {
    private final Fabric fabric;
    private final Driver driver;
    private final BiFunction<byte[], String, Exchange> exchange;
    private final long number;
    private final MemoryRegion own;
    private final RemoteRegion[] remotes;
    private final MemorySegment[] mapped;
    private final Exchange keys;
    private Exchange maps;
    private boolean direct;
    private boolean hosted;

    /**
     * Registers this rank's memory.
     *
     * @param exchange starts an exchange of bytes between all ranks, with a description
     * @param number counts the memories of an epoch; ranks register in the same order, so it is equal on all
     */
    public SymmetricMemory(Fabric fabric, Driver driver, BiFunction<byte[], String, Exchange> exchange, long number,
            long bytes) {
        this.fabric = fabric;
        this.driver = driver;
        this.exchange = exchange;
        this.number = number;
        int world = fabric.world();
        own = fabric.transport().register(bytes);
        remotes = new RemoteRegion[world];
        mapped = new MemorySegment[world];
        keys = exchange.apply(own.key().encode(), "the keys of a buffer of " + bytes + " bytes");
    }

    /** Returns the exchange of keys. */
    public Exchange keys() {
        return keys;
    }

    /**
     * Opens the regions of the other ranks, and sends them which of these this rank could map.
     *
     * @throws CollectiveMismatchException on every rank, if the sizes differ; no region is opened then
     */
    public void open() {
        RegionKey[] received = keysOfOneSize();
        byte[] answer = new byte[mapped.length];
        for (int rank = 0; rank < mapped.length; rank++) {
            if (rank == fabric.rank()) {
                mapped[rank] = own.memory();
                answer[rank] = 1;
                continue;
            }
            boolean near = fabric.host(rank).equals(fabric.host(fabric.rank()));
            remotes[rank] = fabric.endpoint(rank).open(received[rank], near);
            mapped[rank] = remotes[rank].memory();
            answer[rank] = (byte) (mapped[rank] != null ? 1 : 0);
        }
        maps = exchange.apply(answer, "a buffer of " + bytes() + " bytes to be mapped");
    }

    private RegionKey[] keysOfOneSize() {
        RegionKey[] received = new RegionKey[mapped.length];
        for (int rank = 0; rank < mapped.length; rank++) {
            received[rank] = RegionKey.decode(keys.blobs()[rank]);
            if (received[rank].bytes() != bytes()) {
                int here = fabric.rank();
                throw new CollectiveMismatchException(here, rank, "buffer " + number + " of the group: rank " + here
                        + " registers " + bytes() + " bytes, rank " + rank + " registers " + received[rank].bytes()
                        + "; register buffers of the same sizes in the same order on all ranks");
            }
        }
        return received;
    }

    /** Returns the exchange of which ranks map which memory; {@code null} before {@link #open}. */
    public Exchange maps() {
        return maps;
    }

    /** Decides whether the memory is used directly; all ranks come to the same result. */
    public void settle() {
        direct = true;
        hosted = true;
        byte[][] answers = maps.blobs();
        for (int from = 0; from < mapped.length; from++) {
            for (int to = 0; to < mapped.length; to++) {
                boolean maps = answers[from].length == mapped.length && answers[from][to] == 1;
                direct &= maps;
                hosted &= maps || !fabric.host(from).equals(fabric.host(to));
            }
        }
    }

    /** Returns whether every rank maps the memory of every other. */
    public boolean isDirect() {
        return direct;
    }

    /** Returns whether every rank maps the memory of every other rank on its host. */
    public boolean isHosted() {
        return hosted;
    }

    @Override
    public MemorySegment memory() {
        return own.memory();
    }

    /** Returns the address of the byte of this rank's memory at an offset. */
    public long address(long offset) {
        return own.memory().address() + offset;
    }

    /** Returns the number of this memory among those that were registered in this epoch. */
    public long number() {
        return number;
    }

    @Override
    public long bytes() {
        return own.bytes();
    }

    /** Returns this rank's region. */
    public MemoryRegion region() {
        return own;
    }

    /** Returns a rank's region as seen by this process. */
    public RemoteRegion remote(int rank) {
        return remotes[rank];
    }

    /** Returns each rank's memory, {@code null} where it is not mapped. */
    public MemorySegment[] memories() {
        return mapped;
    }

    @Override
    public void close() {
        driver.locked(() -> {
            for (RemoteRegion remote : remotes) {
                if (remote != null) {
                    remote.close();
                }
            }
            own.close();
        });
    }
}
