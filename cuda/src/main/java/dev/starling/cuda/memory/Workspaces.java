package dev.starling.cuda.memory;

import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Working memory for library calls. A block serves one call and returns to the allocator. During a graph capture the
 * graph keeps the block, since its launches use the same addresses; within the capture later calls reuse it.
 */
public final class Workspaces {
    private final Allocator memory;
    /** Actions for the time when the graph being captured is closed; {@code null} outside a capture. */
    private @Nullable List<Runnable> kept;
    private final List<Block> idle = new ArrayList<>();

    /** Makes workspaces of {@code memory}. */
    public Workspaces(Allocator memory) {
        this.memory = memory;
    }

    /** Begins a capture: the graph keeps all blocks that are allocated from now on. */
    public void beginCapture() {
        kept = new ArrayList<>();
    }

    /** Returns whether a graph is being captured: work queued now runs later, at the same addresses. */
    public boolean isCapturing() {
        return kept != null;
    }

    /** Registers an action that runs when the graph being captured is closed. */
    public void onGraphClose(Runnable action) {
        Objects.requireNonNull(kept).add(action);
    }

    /** Ends a capture, if there is one, and returns the action that frees all that the graph keeps, to be run once. */
    public Runnable endCapture() {
        List<Runnable> all = kept == null ? List.of() : kept;
        kept = null;
        idle.clear();
        return () -> all.forEach(Runnable::run);
    }

    /** Allocates a block, as {@link Allocator#allocate}. */
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
            onGraphClose(() -> memory.free(block));
        }
        return block;
    }

    /** Returns a block, as {@link Allocator#free}. */
    public void free(Block block) {
        if (kept == null) {
            memory.free(block);
        } else {
            idle.add(block);
        }
    }

    /** Frees cached memory. */
    public void trim() {
        memory.trim();
    }
}
