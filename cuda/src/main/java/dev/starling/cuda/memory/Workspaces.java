package dev.starling.cuda.memory;

import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemoryUse;
import java.util.ArrayList;
import java.util.List;

/**
 * What libraries work in for the time of a call: a device's memory; but what is lent while a graph is made stays the
 * graph's, since its runs use the same addresses, and serves its next call. So does whatever else its runs need.
 */
public final class Workspaces implements Allocator {
    private final Allocator memory;
    /** What is to be done when the graph that is being made is no more; {@code null} if none is. */
    private List<Runnable> kept;
    private final List<Block> idle = new ArrayList<>();

    /** Makes workspaces of {@code memory}. */
    public Workspaces(Allocator memory) {
        this.memory = memory;
    }

    /** Begins to keep what is lent. */
    public void beginKeeping() {
        kept = new ArrayList<>();
    }

    /** Tells whether a graph is being made: what is queued now runs later, at the same addresses. */
    public boolean isKeeping() {
        return kept != null;
    }

    /** Lets something be done when the graph that is being made is no more. */
    public void afterwards(Runnable action) {
        kept.add(action);
    }

    /** Ends it and returns what gives back all that was kept, once; nothing if it was ended before. */
    public Runnable endKeeping() {
        List<Runnable> all = kept == null ? List.of() : kept;
        kept = null;
        idle.clear();
        return () -> all.forEach(Runnable::run);
    }

    @Override
    public Block allocate(long bytes) {
        if (kept != null) {
            for (Block block : idle) {
                if (block.capacity() >= bytes) {
                    idle.remove(block);
                    return block;
                }
            }
        }
        Block block = memory.allocate(bytes);
        if (kept != null) {
            afterwards(() -> memory.free(block));
        }
        return block;
    }

    @Override
    public void free(Block block) {
        if (kept == null) {
            memory.free(block);
        } else {
            idle.add(block);
        }
    }

    @Override
    public void trim() {
        memory.trim();
    }

    @Override
    public MemoryUse use() {
        return memory.use();
    }
}
