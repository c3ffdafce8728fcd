package dev.starling.tensor.program;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.spi.Chain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Lets elementwise operations whose results one other elementwise operation alone needs become a part of it, so that
 * they never see memory. They are then done in its place: nothing that they read may be changed before.
 */
final class Fusion {
    /** What kernels of all devices take. */
    private static final int MAX_OPERANDS = 3;
    private static final int MAX_STEPS = 16;

    private final List<Node> nodes;
    private final List<Capture.Mark> marks;
    private final List<Integer> group;
    private final List<Tensor> seen;
    /** By value, the number of the node that makes it, or -1. */
    private final int[] maker;
    /** By value, how many nodes use it; outputs are used from outside, too. */
    private final int[] users;
    /** By node, whether it has become a part of another. */
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

    /** Puts fused nodes in the place of others. */
    void run() {
        Node[] result = nodes.toArray(Node[]::new);
        for (int i = 0; i < result.length; i++) {
            if (isElementwise(i)) {
                fold(i);
            }
        }
        // Backwards: what is cut off a chain comes before its end, and may be one of its own.
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

    /** Makes parts of node {@code i} what leads to it, as far as operands and steps allow. */
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

    /** Tells whether values between the two are of one shape, and of a type in which the device can hold them. */
    private boolean fits(int part, int i) {
        Spec inner = nodes.get(part).specs[0];
        boolean isHalf = inner.dtype().isFloating() && inner.dtype().bytes() == 2;
        return inner.shape().equals(nodes.get(i).specs[0].shape())
                && (!isHalf || nodes.get(i).device.backend().fusesHalves());
    }

    /** Tells whether an update between the two nodes changes the memory of one of these values. */
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

    /** Returns the first of the nodes that are done in the place of node {@code i}. */
    private int first(int i) {
        List<Integer> steps = new ArrayList<>();
        collect(i, new ArrayList<>(), steps);
        return steps.stream().mapToInt(s -> s).min().orElse(i);
    }

    /** Finds what a node and its parts read, and their order: in that of first use, operand by operand. */
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

    /** Returns a node that also does what leads to it, without what the device refuses to do in one kernel with it. */
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

    /** Takes a chain that is refused apart before the first of its steps with which it is. */
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

    private Node fuse(int i) {
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
                : nodes.get(i).fused(operands.stream().mapToInt(v -> v).toArray(), kernel);
    }
}
