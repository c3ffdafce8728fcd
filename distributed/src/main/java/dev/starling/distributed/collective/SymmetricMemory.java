package dev.starling.distributed.collective;

import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import java.lang.foreign.MemorySegment;

/**
 * Registered memory of the same size on every rank. Made in three moves, because nobody may wait in the middle: each
 * registers and sends its key, opens the others' by their keys, and learns whether all could map all.
 */
public final class SymmetricMemory implements AutoCloseable {
    private final Engine engine;
    private final MemoryRegion own;
    private final RemoteRegion[] remotes;
    private final MemorySegment[] mapped;
    private final Task keys;
    private Task allMapped;
    private boolean direct;

    SymmetricMemory(Engine engine, long bytes) {
        this.engine = engine;
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

    /** Opens the regions of the other ranks, and tells them whether that gave memory. */
    public void open() {
        boolean all = true;
        for (int rank = 0; rank < mapped.length; rank++) {
            if (rank == engine.fabric().rank()) {
                mapped[rank] = own.memory();
                continue;
            }
            RegionKey key = RegionKey.decode(keys.blobs()[rank]);
            boolean near = engine.fabric().host(rank).equals(engine.fabric().host(engine.fabric().rank()));
            remotes[rank] = engine.fabric().endpoint(rank).open(key, near);
            mapped[rank] = remotes[rank].memory();
            all &= mapped[rank] != null;
        }
        allMapped = engine.exchange(new byte[] {(byte) (all ? 1 : 0)});
    }

    /** Returns the exchange of whether all could map all. */
    public Task mapped() {
        return allMapped;
    }

    /** Decides, alike on all ranks, whether the memory is used directly. */
    public void settle() {
        direct = true;
        for (byte[] said : allMapped.blobs()) {
            direct &= said.length == 1 && said[0] == 1;
        }
    }

    /** Returns whether every rank maps the memory of every other. */
    boolean isDirect() {
        return direct;
    }

    /** Returns this rank's memory. */
    public MemorySegment own() {
        return own.memory();
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
