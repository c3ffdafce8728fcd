package dev.starling.transport;

import dev.starling.transport.spi.RemoteWrites;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.agrona.collections.Long2ObjectHashMap;
import org.jspecify.annotations.Nullable;

/** The memory that a transport has registered, by number. Numbers are given once. */
final class Regions implements AutoCloseable {
    private final Long2ObjectHashMap<MemoryRegion> open = new Long2ObjectHashMap<>();
    /** Closed regions from which the wire still reads, or into which it may still write. */
    private final List<MemoryRegion> deferred = new ArrayList<>();
    private final Consumer<MemoryRegion> onClose;
    private long count;

    /** Creates an empty registry; {@code onClose} is notified of each region that is about to be closed. */
    Regions(Consumer<MemoryRegion> onClose) {
        this.onClose = onClose;
    }

    /** Registers memory, or frees it and throws. */
    MemoryRegion register(AllocatedMemory memory, @Nullable RemoteWrites remote) {
        try {
            MemoryRegion region = new MemoryRegion(this, ++count, memory, remote);
            open.put(count, region);
            return region;
        } catch (RuntimeException e) {
            memory.free();
            throw e;
        }
    }

    /** Returns the open region of this number, or {@code null}. */
    @Nullable MemoryRegion get(long number) {
        return open.get(number);
    }

    /** Returns whether a region of this number exists or has existed. */
    boolean hasExisted(long number) {
        return number > 0 && number <= count;
    }

    void remove(MemoryRegion region) {
        onClose.accept(region);
        open.remove(region.key().region());
    }

    /** Keeps the memory of a closed region, because the wire still accesses it. */
    void defer(MemoryRegion region) {
        deferred.add(region);
    }

    void undefer(MemoryRegion region) {
        deferred.remove(region);
    }

    /** Closes all open regions. The memory that the wire still accesses remains until {@link #free}. */
    @Override
    public void close() {
        List.copyOf(open.values()).forEach(MemoryRegion::close);
    }

    /** Releases the memory that the wire was accessing; called after the wire was closed, also if that has failed. */
    void free() {
        close();
        deferred.forEach(MemoryRegion::free);
        deferred.clear();
    }
}
