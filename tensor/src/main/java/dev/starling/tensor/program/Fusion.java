package dev.starling.tensor.program;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.spi.Chain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Fuses an elementwise operation into the only operation that uses its result, if that is elementwise too, so that the
 * result is never stored. The fused operation runs at the position of the later one; therefore nothing that it reads
 * may be changed in between.
 */
final class Fusion {
    /** Number of operands that fused kernels of all devices support. */
    private static final int MAX_OPERANDS = 3;
    private static final int MAX_STEPS = 16;

    private final List<Node> nodes;
    private final List<Capture.Mark> marks;
    private final List<Integer> group;
    private final List<Tensor> seen;
    /** By value: the number of the node that makes it, or -1. */
    private final int[] maker;
    /** By value: how many nodes use it; use as an output of the program counts too. */
    private final int[] users;
    /** By node: whether it was fused into another. */
    private final boolean[] folded;

    Fusion(List<Node> nodes, List<Capture.Mark> marks, Capture capture, int[] outputs) {
        this.nodes = nodes;
        this.marks = marks;
        this.group = capture.group;
        seen = capture.seen;
        folded = new boolean[nodes.size()];
        maker = new int[group.size()];
        users = new int[group.size()];
        Arrays.fill(maker, -1);
        for (int i = 0; i < nodes.size(); i++) {
            for (int value : nodes.get(i).outputs) {
                maker[value] = i;
            }
            for (int value : Arrays.stream(nodes.get(i).inputs).distinct().toArray()) {
                users[value]++;
            }
        }
        for (int value : outputs) {
            if (value >= 0) {
                users[value] += 2;
            }
        }
    }

    /** Replaces chains of nodes by fused nodes. */
    void run() {
        Node[] result = nodes.toArray(Node[]::new);
        for (int i = 0; i < result.length; i++) {
            if (isElementwise(i)) {
                fold(i);
            }
        }
        // Backwards: a part that is cut off a chain precedes the chain's end, and may be the end of a chain of its own.
        for (int i = result.length - 1; i >= 0; i--) {
            if (!folded[i] && isElementwise(i)) {
                result[i] = fused(i);
            }
        }
        int[] before = new int[result.length + 1];
        nodes.clear();
        for (int i = 0; i < result.length; i++) {
            before[i] = nodes.size();
            if (!folded[i]) {
                nodes.add(result[i]);
            }
        }
        before[result.length] = nodes.size();
        marks.replaceAll(mark -> new Capture.Mark(before[mark.node()], mark.label()));
    }

    private boolean isElementwise(int i) {
        return nodes.get(i).op instanceof Elementwise && !nodes.get(i).constant;
    }

    /** Fuses the nodes that lead to node {@code i} into it, as far as the numbers of operands and steps allow. */
    private void fold(int i) {
        for (int value : nodes.get(i).inputs) {
            int part = maker[value];
            if (part < 0 || folded[part] || users[value] != 1 || !isElementwise(part) || !fits(part, i)) {
                continue;
            }
            folded[part] = true;
            List<Integer> operands = new ArrayList<>();
            List<Integer> steps = new ArrayList<>();
            collect(i, operands, steps);
            if (operands.size() > MAX_OPERANDS || steps.size() > MAX_STEPS || isChanged(operands, part, i)) {
                folded[part] = false;
            }
        }
    }

    /**
     * Returns whether an operand has the shape of the part's result, which then has the operand's memory layout. Else
     * the result is row-major, and a chain with another such operand behind it would not be.
     */
    private boolean isLaidOutByOperand(int part) {
        return Arrays.stream(nodes.get(part).inputs).anyMatch(value -> isFolded(value)
                || seen.get(value).shape().equals(nodes.get(part).specs[0].shape()));
    }

    /** Returns whether values between the two have the same shape and a type that the device can hold in a chain. */
    private boolean fits(int part, int i) {
        Spec inner = nodes.get(part).specs[0];
        boolean half = inner.dtype().isFloating() && inner.dtype().bytes() == 2;
        return inner.shape().equals(nodes.get(i).specs[0].shape()) && isLaidOutByOperand(part)
                && (!half || nodes.get(i).device.backend().fusesHalves());
    }

    /** Returns whether an update between the two nodes changes the memory of one of these values. */
    private boolean isChanged(List<Integer> values, int from, int to) {
        for (int i = first(from); i < to; i++) {
            for (int value : nodes.get(i).changed()) {
                int changed = group.get(value);
                for (int read : values) {
                    if (group.get(read) == changed) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    /** Returns the first of the nodes that are fused into node {@code i}. */
    private int first(int i) {
        List<Integer> steps = new ArrayList<>();
        collect(i, new ArrayList<>(), steps);
        return steps.stream().mapToInt(s -> s).min().orElse(i);
    }

    /** Collects what a node and its parts read, and their order: that of first use, operand by operand. */
    private void collect(int i, List<Integer> operands, List<Integer> steps) {
        for (int value : nodes.get(i).inputs) {
            int part = maker[value];
            if (isFolded(value)) {
                if (!steps.contains(part)) {
                    collect(part, operands, steps);
                }
            } else if (!operands.contains(value)) {
                operands.add(value);
            }
        }
        steps.add(i);
    }

    private boolean hasParts(int i) {
        return Arrays.stream(nodes.get(i).inputs).anyMatch(this::isFolded);
    }

    private boolean isFolded(int value) {
        return maker[value] >= 0 && folded[maker[value]] && users[value] == 1;
    }

    /**
     * Returns node {@code i} with its parts fused, without those that the device refuses to run in one kernel with it.
     */
    private Node fused(int i) {
        while (hasParts(i)) {
            Node fused = fuse(i);
            if (fused != null) {
                return fused;
            }
            cut(i);
        }
        return nodes.get(i);
    }

    /** Splits a refused chain before the first step that makes the device refuse it. */
    private void cut(int i) {
        List<Integer> steps = new ArrayList<>();
        collect(i, new ArrayList<>(), steps);
        for (int step : steps) {
            if (hasParts(step) && (step == i || fuse(step) == null)) {
                for (int value : nodes.get(step).inputs) {
                    if (isFolded(value)) {
                        folded[maker[value]] = false;
                    }
                }
                return;
            }
        }
    }

    private @Nullable Node fuse(int i) {
        List<Integer> operands = new ArrayList<>();
        List<Integer> parts = new ArrayList<>();
        collect(i, operands, parts);
        List<Spec> specs = new ArrayList<>();
        operands.forEach(value -> specs.add(seen.get(value).spec()));
        List<Integer> values = new ArrayList<>(operands);
        List<Chain.Step> steps = new ArrayList<>();
        for (int part : parts) {
            Node node = nodes.get(part);
            List<Integer> of = Arrays.stream(node.inputs).map(values::indexOf).boxed().toList();
            steps.add(new Chain.Step((Elementwise) node.op, of, node.specs[0]));
            values.add(node.outputs[0]);
        }
        Chain.Kernel kernel = nodes.get(i).device.backend().fuse(new Chain(specs, steps));
        return kernel == null ? null
                : nodes.get(i).fused(operands.stream().mapToInt(v -> v).toArray(), kernel,
                        parts.stream().map(nodes::get).toList());
    }
}
