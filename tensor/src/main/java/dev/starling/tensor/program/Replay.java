package dev.starling.tensor.program;

import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Carries out the nodes of a program. The first run plans memory: what each backend allocates is placed in an
 * {@link Arena}. Later runs return the same tensors to the backend, so that nothing is allocated. What only a later run
 * requests gets a block of the arena of its own, and belongs to the runs after it, too.
 */
final class Replay implements Interceptor {
    private final List<Node> nodes;
    private final int[] group;
    private final int[] lastUse;
    private final Arena arena;
    /** The tensor of each value. */
    private final Tensor[] values;
    private final Generator.@Nullable State start;
    private final Arena.Slot[] slots;
    private @Nullable Node active;
    private int requested;
    private boolean planning;
    private Arena.Slot[] fresh = new Arena.Slot[8];

    Replay(Flow flow, int[] group, Tensor[] values, Arena arena, Generator.@Nullable State start) {
        nodes = flow.nodes;
        this.group = group;
        lastUse = flow.lastUse;
        this.values = values;
        this.arena = arena;
        this.start = start;
        slots = new Arena.Slot[values.length];
    }

    // ---- the first run ----

    /** Runs a node and lays out the memory of what it makes. */
    void plan(int i, Generator.@Nullable State now) {
        Node node = nodes.get(i);
        begin(node, true);
        node.operands = new Tensor[node.inputs.length];
        Arrays.setAll(node.operands, k -> values[node.inputs[k]]);
        node.made.clear();
        Tensor[] outputs = node.execute(renewed(node, now));
        for (int k = 0; k < outputs.length; k++) {
            values[node.outputs[k]] = outputs[k];
        }
        for (int k = 0; k < outputs.length; k++) {
            occupy(group[node.outputs[k]], slotOf(outputs[k], node));
        }
        for (int m = 0; m < node.made.size(); m++) {
            fresh[m].release();
        }
        for (int value : node.inputs) {
            free(group[value], i);
        }
        for (int value : node.outputs) {
            free(group[value], i);
        }
    }

    /** Returns the block of a result: one that the node has acquired, or that of an operand. */
    private Arena.@Nullable Slot slotOf(Tensor output, Node node) {
        for (int m = 0; m < node.made.size(); m++) {
            if (output.sharesMemoryWith(node.made.get(m))) {
                return fresh[m];
            }
        }
        for (int k = 0; k < node.inputs.length; k++) {
            if (output.sharesMemoryWith(node.operands[k])) {
                return slots[group[node.inputs[k]]];
            }
        }
        return null;
    }

    /**
     * Lets a group hold a block until its last use. Kernels may share memory otherwise than at capture, so that several
     * groups hold one block, or a group needs several: it then holds the others for ever.
     */
    private void occupy(int of, Arena.@Nullable Slot slot) {
        if (slot != null && slots[of] != slot) {
            slot.hold();
            slots[of] = slots[of] == null ? slot : slots[of];
        }
    }

    private void free(int of, int node) {
        if (lastUse[of] == node && slots[of] != null) {
            slots[of].release();
            slots[of] = null;
        }
    }

    // ---- later runs ----

    /** Runs a node again. */
    void run(int i, Generator.@Nullable State now) {
        Node node = nodes.get(i);
        if (node.isIdle() || node.repeat(values)) {
            return;
        }
        begin(node, false);
        Tensor[] outputs = node.execute(renewed(node, now));
        for (int k = 0; k < outputs.length; k++) {
            if (!outputs[k].sharesMemoryWith(values[node.outputs[k]])) {
                throw new IllegalStateException(node.op.name() + " put its result elsewhere than in the first run");
            }
        }
    }

    /** Returns the operation to run; random numbers keep their distance from the generator's state at capture. */
    private Op renewed(Node node, Generator.@Nullable State now) {
        return node.op instanceof Random random && now != null && start != null
                ? random.at(now.seed(), now.counter() + (random.counter() - start.counter())) : node.op;
    }

    private void begin(Node node, boolean first) {
        active = node;
        requested = 0;
        planning = first;
    }

    @Override
    public Tensor allocate(Spec spec, long[] strides) {
        Node node = Objects.requireNonNull(active);
        if (planning) {
            if (requested == fresh.length) {
                fresh = Arrays.copyOf(fresh, requested * 2);
            }
            // A result of the first run alone must not share memory with values that later runs compute before it.
            fresh[requested] = node.constant ? arena.fresh(spec.device(), spec.bytes())
                    : arena.acquire(spec.device(), spec.bytes());
            Tensor tensor = fresh[requested++].lend(spec, strides);
            node.made.add(tensor);
            return tensor;
        }
        // A tensor that the backend cached in the first run is not requested again.
        for (int m = requested; m < node.made.size(); m++) {
            Tensor next = node.made.get(m);
            if (next.spec().equals(spec) && Arrays.equals(next.sharedStrides(), strides)) {
                requested = m + 1;
                return next;
            }
        }
        // A kernel in place of a library that declines may need memory that the library did not. The program keeps it:
        // a device that records this run writes there in later ones.
        Tensor more = arena.fresh(spec.device(), spec.bytes()).lend(spec, strides);
        node.made.add(requested++, more);
        return more;
    }

    @Override
    public void onOperation(Op op, Tensor[] inputs, Tensor[] outputs) { }
}
