package dev.starling.transport;

import dev.starling.transport.spi.RemoteWrites;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import org.agrona.collections.Long2ObjectHashMap;
import org.jspecify.annotations.Nullable;

/** The memory that a transport has registered, by number. Numbers are given once. */
final class Regions implements AutoCloseable {
    private final Long2ObjectHashMap<MemoryRegion> open = new Long2ObjectHashMap<>();
    /** Closed regions from which the wire still reads, or into which it may still write. */
    private final List<MemoryRegion> deferred = new ArrayList<>();
    private final BiConsumer<MemoryRegion, List<Runnable>> cancel;
    private long count;

    /** Creates an empty registry; {@code cancel} ends puts from a region, and adds the calls of their completions. */
    Regions(BiConsumer<MemoryRegion, List<Runnable>> cancel) {
        this.cancel = cancel;
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

    /** Removes a region that is about to be closed. When completions are called, no put reads from it any more. */
    void remove(MemoryRegion region) {
        open.remove(region.key().region());
        List<Runnable> ended = new ArrayList<>();
        cancel.accept(region, ended);
        Callbacks.runAll(ended);
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
