package dev.starling.nn.layer;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The keys and values of the positions that an attention layer has computed, so that a text is generated without
 * computing them again for each token. Each layer has a cache of its own; memory for {@code capacity} positions is
 * allocated at the first use. For inference only. Not thread-safe.
 */
public final class KeyValueCache implements AutoCloseable {
    private final long capacity;
    private long length;
    /** {@code [N, heads, capacity, E]}; {@code null} before the first use. */
    private @Nullable Parameter keys;
    private @Nullable Parameter values;

    private KeyValueCache(long capacity) {
        this.capacity = capacity;
    }

    /** Returns an empty cache for up to {@code capacity} positions. */
    public static KeyValueCache of(long capacity) {
        if (capacity < 1) {
            throw TensorException.argument("cache", "the capacity must be at least 1, got " + capacity,
                    "use the length of the longest text");
        }
        return new KeyValueCache(capacity);
    }

    /** Returns the number of positions that are stored. */
    public long length() {
        return length;
    }

    /** Forgets all positions, for the next text. */
    public void clear() {
        length = 0;
    }

    /** Stores the keys and values {@code [N, heads, L, E]} of the next positions. Returns those of all positions. */
    Tensor[] append(Tensor k, Tensor v) {
        if (length + k.size(2) > capacity) {
            throw new TensorException(TensorException.Problem.SHAPE, "cache", List.of(k.spec()), "the cache has room "
                    + "for " + capacity + " positions and holds " + length, "clear it, or build it for more positions");
        }
        if (keys == null || values == null || !keys.shape().without(2).equals(k.shape().without(2))
                || keys.master().device() != k.device() || keys.master().dtype() != k.dtype()) {
            if (length > 0) {
                throw new TensorException(TensorException.Problem.SHAPE, "cache", List.of(k.spec()), "the cache holds "
                        + "positions of another batch", "clear it before the next text");
            }
            close();
            try (Scope scope = Scope.open("cache")) {
                Shape all = k.shape().with(2, capacity);
                keys = Parameter.buffer(Tensor.full(k.spec().with(all), 0));
                values = Parameter.buffer(Tensor.full(k.spec().with(all), 0));
            }
        }
        Tensor[] stored = {keys.master(), values.master()};
        Tensor[] added = {k, v};
        return Recorder.with(Recorder.NONE, () -> {
            for (int i = 0; i < stored.length; i++) {
                Tensor.apply(new Update.Assign(), stored[i].narrow(2, length, k.size(2)), added[i]);
                stored[i] = stored[i].narrow(2, 0, length + k.size(2));
            }
            length += k.size(2);
            return stored;
        });
    }

    /** Frees the memory and forgets all positions. */
    @Override
    public void close() {
        if (keys != null && values != null) {
            keys.close();
            values.close();
        }
        keys = null;
        values = null;
        length = 0;
    }
}
