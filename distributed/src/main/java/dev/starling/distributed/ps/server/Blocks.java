package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.store.CheckedFile;
import dev.starling.distributed.ps.store.TrainedWeights;
import dev.starling.distributed.ps.store.WholeWeights;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The blocks of one server: their weights, and the state of their rules. The blocks of a parameter whose rule needs it
 * as a whole follow each other and step together; such a step needs the gradients of all of them. Elsewhere each block
 * steps by itself.
 */
final class Blocks implements AutoCloseable {
    /** Bytes of a block besides those of its elements, roughly. */
    private static final int BLOCK_BYTES = 200;

    private final Plan plan;
    private final List<Plan.Block> layout;
    /** Whether a block has weights. */
    final boolean[] ready;
    /** Number of steps. */
    final long[] versions;
    /** By block; {@code null} where the parameter is whole. */
    private final @Nullable TrainedWeights[] weights;
    /** By block; {@code null} where each block steps by itself. */
    private final @Nullable WholeWeights[] whole;
    private final int[] begins;
    private final int[] ends;

    Blocks(Plan plan, int server) {
        requireHeap(plan);
        this.plan = plan;
        layout = plan.blocks(server);
        int n = layout.size();
        ready = new boolean[n];
        versions = new long[n];
        weights = new TrainedWeights[n];
        whole = new WholeWeights[n];
        begins = new int[n];
        ends = new int[n];
        for (int u = 0; u < n; u++) {
            Plan.Dense parameter = parameter(u);
            begins[u] = u;
            ends[u] = u + 1;
            if (parameter.whole() == null) {
                weights[u] = new TrainedWeights(parameter.rule(), length(u), 1);
            } else if (layout.get(u).from() == 0) {
                whole[u] = new WholeWeights(parameter);
            } else {
                whole[u] = whole[u - 1];
                begins[u] = begins[u - 1];
                for (int first = begins[u]; first <= u; first++) {
                    ends[first] = u + 1;
                }
            }
        }
    }

    /** Throws if a server's part of the weights does not fit into the heap, before their blocks fill it. */
    private static void requireHeap(Plan plan) {
        double bytes = 0;
        for (Plan.Dense each : plan.dense()) {
            if (each.whole() == null) {
                double part = (double) each.count() / plan.servers();
                bytes += part * Float.BYTES * (1 + each.slots()) + part / plan.blockLength() * BLOCK_BYTES;
            }
        }
        long heap = Runtime.getRuntime().maxMemory();
        if (bytes > heap) {
            throw TensorException.argument("parameter server", "its part of the weights, and the state of their rules, "
                    + "needs " + Math.round(bytes) + " bytes, but its heap has at most " + heap, "start the server "
                    + "with a larger -Xmx, or use more servers");
        }
    }

    private Plan.Dense parameter(int block) {
        return plan.dense().get(layout.get(block).parameter());
    }

    int count() {
        return layout.size();
    }

    int length(int block) {
        return layout.get(block).length();
    }

    int slots(int block) {
        return parameter(block).slots();
    }

    boolean isWhole(int block) {
        return whole[block] != null;
    }

    /** Returns the first of the blocks that step together with one. */
    int begin(int block) {
        return begins[block];
    }

    /** Returns the end of the blocks that step together with one. */
    int end(int block) {
        return ends[block];
    }

    /** Returns the number of elements of the blocks that step together with one. */
    int lengthOfStep(int block) {
        return isWhole(block) ? (int) parameter(block).count() : length(block);
    }

    /** Copies a block's weights (array 0) or an array of its rule's state (from 1 on). */
    void get(int block, int array, float[] into) {
        if (whole[block] != null) {
            whole[block].get(array, layout.get(block).from(), into, length(block));
        } else {
            weights[block].get(array, into, 0, length(block));
        }
    }

    /** Replaces a block's weights, or an array of its rule's state. */
    void set(int block, int array, float[] from) {
        if (whole[block] != null) {
            whole[block].set(array, layout.get(block).from(), from, length(block));
        } else {
            weights[block].set(array, from, 0, length(block));
        }
    }

    /**
     * Takes a step on the blocks that step together with one.
     *
     * @return false if nothing has changed, because the direction of a whole parameter is not finite
     */
    boolean step(int block, float[] gradient, double rate) {
        if (whole[block] != null && !whole[block].step(gradient, rate)) {
            return false;
        }
        for (int u = begins[block]; u < ends[block]; u++) {
            versions[u]++;
        }
        if (weights[block] != null) {
            weights[block].step(gradient, rate, versions[block]);
        }
        return true;
    }

    /** Returns whether a block has weights. */
    boolean isFilled() {
        for (int u = 0; u < ready.length; u++) {
            if (ready[u] && length(u) > 0) {
                return true;
            }
        }
        return false;
    }

    void save(CheckedFile out) throws IOException {
        for (int u = 0; u < ready.length; u++) {
            out.putInt(ready[u] ? 1 : 0);
            float[] floats = new float[length(u)];
            for (int k = 0; k <= slots(u); k++) {
                get(u, k, floats);
                out.put(floats);
            }
        }
    }

    void load(CheckedFile in) throws IOException {
        for (int u = 0; u < ready.length; u++) {
            ready[u] = in.getInt() == 1;
            float[] floats = new float[length(u)];
            for (int k = 0; k <= slots(u); k++) {
                in.get(floats);
                set(u, k, floats);
            }
        }
    }

    @Override
    public void close() {
        for (int u = 0; u < begins.length; u++) {
            if (whole[u] != null && begins[u] == u) {
                whole[u].close();
            }
        }
    }
}
