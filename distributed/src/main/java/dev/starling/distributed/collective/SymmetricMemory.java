package dev.starling.distributed.collective;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import java.lang.foreign.MemorySegment;

/**
 * Registered memory of the same size on every rank. Made in three moves, because nobody may wait in the middle: each
 * registers and sends its key, opens the others' by their keys, and learns who could map whom.
 */
public final class SymmetricMemory implements AutoCloseable {
    private final Engine engine;
    private final long number;
    private final MemoryRegion own;
    private final RemoteRegion[] remotes;
    private final MemorySegment[] mapped;
    private final Task keys;
    private Task allMapped;
    private boolean direct;
    private boolean hosted;

    /** {@code number} of the memory in its epoch: the same on all ranks, as they register in the same order. */
    SymmetricMemory(Engine engine, long number, long bytes) {
        this.engine = engine;
        this.number = number;
        int world = engine.fabric().world();
        own = engine.fabric().transport().register(bytes);
        remotes = new RemoteRegion[world];
        mapped = new MemorySegment[world];
        keys = engine.exchange(own.key().encode());
    }

    /** Returns the exchange of keys. */
    public Task keys() {
        return keys;
    }

    /**
     * Opens the regions of the other ranks, and tells them whether that gave memory.
     *
     * @throws CollectiveMismatchException on every rank, if they are not of the same size; nothing is opened then
     */
    public void open() {
        RegionKey[] heard = keysOfOneSize();
        byte[] there = new byte[mapped.length];
        for (int rank = 0; rank < mapped.length; rank++) {
            if (rank == engine.fabric().rank()) {
                mapped[rank] = own.memory();
                there[rank] = 1;
                continue;
            }
            boolean near = engine.fabric().host(rank).equals(engine.fabric().host(engine.fabric().rank()));
            remotes[rank] = engine.fabric().endpoint(rank).open(heard[rank], near);
            mapped[rank] = remotes[rank].memory();
            there[rank] = (byte) (mapped[rank] != null ? 1 : 0);
        }
        allMapped = engine.exchange(there);
    }

    private RegionKey[] keysOfOneSize() {
        RegionKey[] heard = new RegionKey[mapped.length];
        for (int rank = 0; rank < mapped.length; rank++) {
            heard[rank] = RegionKey.decode(keys.blobs()[rank]);
            if (heard[rank].bytes() != bytes()) {
                int here = engine.fabric().rank();
                throw new CollectiveMismatchException(here, rank, "buffer " + number + " of the group: rank " + here
                        + " registers " + bytes() + " bytes, rank " + rank + " " + heard[rank].bytes()
                        + "; let all ranks register buffers of the same sizes in the same order");
            }
        }
        return heard;
    }

    /** Returns the exchange of who could map whom. */
    public Task mapped() {
        return allMapped;
    }

    /** Decides, alike on all ranks, whether the memory is used directly. */
    public void settle() {
        direct = true;
        hosted = true;
        byte[][] said = allMapped.blobs();
        for (int from = 0; from < mapped.length; from++) {
            for (int to = 0; to < mapped.length; to++) {
                boolean maps = said[from].length == mapped.length && said[from][to] == 1;
                direct &= maps;
                hosted &= maps || !engine.fabric().host(from).equals(engine.fabric().host(to));
            }
        }
    }

    /** Returns whether every rank maps the memory of every other. */
    boolean isDirect() {
        return direct;
    }

    /** Returns whether every rank maps the memory of every other of its host. */
    boolean isHosted() {
        return hosted;
    }

    /** Returns this rank's memory. */
    public MemorySegment own() {
        return own.memory();
    }

    /** Returns the number of this memory among those that were registered in this epoch. */
    long number() {
        return number;
    }

    /** Returns the size in bytes. */
    public long bytes() {
        return own.bytes();
    }

    /** Returns this rank's region. */
    MemoryRegion region() {
        return own;
    }

    /** Returns a rank's region as seen from here. */
    RemoteRegion remote(int rank) {
        return remotes[rank];
    }

    /** Returns each rank's memory, {@code null} where it is not mapped. */
    MemorySegment[] memories() {
        return mapped;
    }

    @Override
    public void close() {
        for (RemoteRegion remote : remotes) {
            if (remote != null) {
                remote.close();
            }
        }
        own.close();
    }
}
