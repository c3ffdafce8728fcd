package dev.starling.distributed.collective.call;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.TransportException;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Registered memory of the same size on every rank. It is set up in three steps, so that the group's thread never
 * waits: each rank registers its memory and sends the key; opens the other ranks' memory by their keys and sends which
 * it could map; and decides from all ranks' answers whether the memory is used directly ({@link #settle}).
 */
public final class SymmetricMemory implements SymmetricBuffer {
    /** What a rank sends the others about the memory that it could map. */
    private static final int MAPS_ALL = 1;
    private static final int MAPS_HOST = 2;

    private final Fabric fabric;
    private final Driver driver;
    private final BiFunction<byte[], String, Exchange> exchange;
    private final Consumer<SymmetricMemory> closing;
    private final long number;
    private final MemoryRegion own;
    private final RemoteRegion[] remotes;
    private final MemorySegment[] mapped;
    /** By rank, the keys of partners; {@code null} before {@link #open}. */
    private @Nullable RegionKey @Nullable [] partnerKeys;
    private final Exchange keys;
    /** {@code null} before {@link #open}. */
    private @Nullable Exchange maps;
    private boolean direct;
    private boolean hosted;
    private boolean closed;

    /**
     * Begins to set up memory.
     *
     * @param exchange starts an exchange of bytes between all ranks, with a description
     * @param closing is called before the memory is released, and ends the collective that uses it
     * @param number counts the memories of an epoch; ranks register in the same order, so it is equal on all
     * @param own this rank's memory
     */
    public SymmetricMemory(Fabric fabric, Driver driver, BiFunction<byte[], String, Exchange> exchange,
            Consumer<SymmetricMemory> closing, long number, MemoryRegion own) {
        this.fabric = fabric;
        this.driver = driver;
        this.exchange = exchange;
        this.closing = closing;
        this.number = number;
        int world = fabric.world();
        this.own = own;
        remotes = new RemoteRegion[world];
        mapped = new MemorySegment[world];
        keys = exchange.apply(own.key().encode(), "the keys of a buffer of " + own.bytes() + " bytes");
    }

    /** Returns the ranks and the epoch to which this memory belongs. */
    public Fabric fabric() {
        return fabric;
    }

    /** Returns the exchange of keys. */
    public Exchange keys() {
        return keys;
    }

    /**
     * Opens the regions of the partners, and sends all ranks whether this rank could map those of all ranks, and of all
     * on its host.
     *
     * @throws CollectiveMismatchException on every rank, if the sizes differ; no region is opened then
     */
    public void open() {
        RegionKey[] received = keysOfOneSize();
        partnerKeys = new RegionKey[mapped.length];
        mapped[fabric.rank()] = own.memory();
        for (int partner : fabric.partners()) {
            partnerKeys[partner] = received[partner];
            remote(partner);
        }
        keys.release();
        boolean all = true;
        boolean near = true;
        for (int rank = 0; rank < mapped.length; rank++) {
            all &= mapped[rank] != null;
            near &= mapped[rank] != null || !isNear(rank);
        }
        maps = exchange.apply(new byte[] {(byte) ((all ? MAPS_ALL : 0) | (near ? MAPS_HOST : 0))},
                "a buffer of " + bytes() + " bytes to be mapped");
    }

    private boolean isNear(int rank) {
        return fabric.host(rank).equals(fabric.host(fabric.rank()));
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

    /** Returns the exchange of whether ranks map memory; {@code null} before {@link #open}. */
    public @Nullable Exchange maps() {
        return maps;
    }

    /** Decides whether the memory is used directly; all ranks come to the same result. */
    public void settle() {
        direct = true;
        hosted = true;
        Exchange answers = Objects.requireNonNull(maps);
        for (byte[] answer : answers.blobs()) {
            direct &= answer.length == 1 && (answer[0] & MAPS_ALL) != 0;
            hosted &= answer.length == 1 && (answer[0] & MAPS_HOST) != 0;
        }
        answers.release();
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

    /** Returns a partner's region as seen by this process; {@code null} while the connection to it is being opened. */
    public @Nullable RemoteRegion remote(int rank) {
        RemoteRegion remote = remotes[rank];
        RegionKey key = remote == null && partnerKeys != null ? partnerKeys[rank] : null;
        Endpoint endpoint = key == null ? null : fabric.endpoint(rank);
        if (endpoint != null && key != null) {
            remote = endpoint.open(key, isNear(rank));
            remotes[rank] = remote;
            mapped[rank] = remote.memory();
        }
        return remote;
    }

    /** Returns each rank's memory, {@code null} where it is not mapped. */
    public MemorySegment[] memories() {
        return mapped;
    }

    /** Checks that the memory is not released: a collective accesses it by address. */
    public void requireOpen(CollectiveCall call) {
        if (closed) {
            throw new TransportException(TransportException.Problem.ARGUMENT, call + ": the buffer is closed",
                    "close a buffer when no collective on it is to follow");
        }
    }

    @Override
    public void close() {
        driver.locked(() -> {
            if (closed) {
                return;
            }
            closed = true;
            closing.accept(this);
            for (RemoteRegion remote : remotes) {
                if (remote != null) {
                    remote.close();
                }
            }
            own.close();
        });
    }
}
