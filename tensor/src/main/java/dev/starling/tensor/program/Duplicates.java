package dev.starling.tensor.program;

import dev.starling.tensor.Device;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Finds operations that compute again what an earlier one has computed: the same operation on the same operands, none
 * of which is ever changed in place. Results of the program are always computed, since the caller may change them.
 */
final class Duplicates {
    private final List<Integer> group;
    /** By group of values that share memory: whether it is a result of the program, or changed by an update. */
    private final boolean[] exposed;
    private final Map<Key, Node> first = new HashMap<>();
    /** By value: the earlier value that is equal, or itself. */
    private final int[] same;

    private record Key(Op op, Device device, List<Integer> operands) { }

    Duplicates(Capture capture, int[] outputs) {
        group = capture.group;
        exposed = new boolean[group.size()];
        same = IntStream.range(0, group.size()).toArray();
        for (Node node : capture.nodes) {
            for (int value : node.changed()) {
                exposed[group.get(value)] = true;
            }
        }
        for (int value : outputs) {
            if (value >= 0) {
                exposed[group.get(value)] = true;
            }
        }
    }

    /** Returns the node, with operands that are made only once, or {@code null} if an earlier one has its results. */
    @Nullable Node of(Node node) {
        int[] operands = Arrays.stream(node.inputs).map(value -> same[value]).toArray();
        Node result = Arrays.equals(operands, node.inputs) ? node : node.reading(operands);
        boolean pure = !(node.op instanceof Update || node.op instanceof Random)
                && IntStream.concat(Arrays.stream(operands), Arrays.stream(node.outputs))
                        .noneMatch(value -> exposed[group.get(value)]);
        Node earlier = pure ? first.putIfAbsent(new Key(node.op, node.device,
                Arrays.stream(operands).boxed().toList()), node) : null;
        if (earlier == null) {
            return result;
        }
        for (int k = 0; k < node.outputs.length; k++) {
            same[node.outputs[k]] = earlier.outputs[k];
        }
        node.same = earlier;
        return null;
    }
}
