package dev.starling.tensor.program;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Flops;
import dev.starling.tensor.op.FormulaOp;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.View;
import dev.starling.tensor.program.Explanation.Line;
import dev.starling.tensor.program.Explanation.Operand;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** What a program keeps of the captured work, in order to explain itself. */
final class Listing {
    private final List<Node> captured;
    private final int inputs;
    /** By value: its spec, its bytes, whether a host computed it during the work, and a value with the same memory. */
    private final Spec[] specs;
    private final long[] bytes;
    private final boolean[] constant;
    private final int[] group;

    Listing(Capture capture) {
        captured = List.copyOf(capture.nodes);
        inputs = capture.inputs;
        specs = capture.seen.stream().map(Tensor::spec).toArray(Spec[]::new);
        bytes = capture.seen.stream().mapToLong(Listing::covered).toArray();
        group = capture.group.stream().mapToInt(g -> g).toArray();
        constant = new boolean[specs.length];
        for (int value = 0; value < constant.length; value++) {
            Tensor given = capture.given.get(value);
            constant[value] = given != null && capture.owned.contains(given);
        }
    }

    /** Returns the bytes of a tensor's distinct elements: those of broadcast dimensions count once. */
    private static long covered(Tensor tensor) {
        long count = tensor.dtype().bytes();
        for (int dim = 0; dim < tensor.rank(); dim++) {
            count *= tensor.stride(dim) == 0 ? Math.min(tensor.size(dim), 1) : tensor.size(dim);
        }
        return count;
    }

    /** Explains a program that carries out these nodes. */
    Explanation explain(List<Node> run, long memory) {
        List<Node> active = run.stream().filter(node -> !node.isIdle()).toList();
        Map<Node, Integer> into = new IdentityHashMap<>();
        for (int i = 0; i < active.size(); i++) {
            for (Node part : active.get(i).parts()) {
                into.put(part, i);
            }
        }
        Map<Node, Boolean> kept = new IdentityHashMap<>();
        run.forEach(node -> kept.put(node, true));
        int[] maker = makers(captured);
        List<Line> before = new ArrayList<>();
        for (Node node : captured) {
            int line = into.getOrDefault(node, -1);
            String note = line >= 0 ? active.get(line).parts().size() > 1 ? "fused into " + line : ""
                    : node.op instanceof View ? "view" : kept.containsKey(node) ? "first run only" : "unused";
            before.add(line(node, operands(node, maker), node.capturedReorders, line, note));
        }
        int[] runner = makers(active);
        List<Line> after = new ArrayList<>();
        for (Node node : active) {
            int[] sources = Arrays.stream(node.inputs).map(value -> source(value, maker)).toArray();
            List<Operand> operands = Arrays.stream(sources).mapToObj(value -> runner[value] < 0 && maker[value] >= 0
                    ? new Operand(-1, "constant") : operand(value, runner)).toList();
            after.add(line(node, operands, node.reorders, -1, ""));
        }
        return new Explanation(before, after, memory);
    }

    /** Returns for each value the index of the node that makes it, or -1. */
    private int[] makers(List<Node> nodes) {
        int[] maker = new int[specs.length];
        Arrays.fill(maker, -1);
        for (int i = 0; i < nodes.size(); i++) {
            for (int value : nodes.get(i).outputs) {
                maker[value] = i;
            }
        }
        return maker;
    }

    /** Returns the value of which a value is a view. */
    private int source(int value, int[] maker) {
        int at = value;
        while (maker[at] >= 0 && captured.get(maker[at]).op instanceof View) {
            at = captured.get(maker[at]).inputs[0];
        }
        return at;
    }

    private List<Operand> operands(Node node, int[] maker) {
        return Arrays.stream(node.inputs).mapToObj(value -> operand(value, maker)).toList();
    }

    private Operand operand(int value, int[] maker) {
        String name = maker[value] >= 0 ? Integer.toString(maker[value]) : value < inputs ? "input " + value
                : constant[value] ? "constant" : describe(specs[value]);
        return new Operand(maker[value], name);
    }

    private Line line(Node node, List<Operand> operands, long reorders, int into, String note) {
        Spec[] in = Arrays.stream(node.inputs).mapToObj(value -> specs[value]).toArray(Spec[]::new);
        boolean view = Arrays.stream(node.outputs).anyMatch(result ->
                Arrays.stream(node.inputs).anyMatch(operand -> group[operand] == group[result]));
        long moved = view ? 0 : IntStream.concat(Arrays.stream(node.inputs).distinct(),
                IntStream.concat(Arrays.stream(node.outputs), Arrays.stream(node.changed())))
                .mapToLong(value -> bytes[value]).sum();
        long flops = node.parts().stream().mapToLong(part -> Flops.of(part.op,
                Arrays.stream(part.inputs).mapToObj(value -> specs[value]).toArray(Spec[]::new), part.specs)).sum();
        String name = node.parts().stream().map(part -> name(part.op)).collect(Collectors.joining(" + "));
        return new Line(name, operands, describe(node.specs.length > 0 ? node.specs[0] : in[0]), moved, flops, reorders,
                into, note);
    }

    private static String name(Op op) {
        Epilogue epilogue = switch (op) {
            case Contraction.Linear linear -> linear.epilogue();
            case Convolution.Conv conv -> conv.epilogue();
            case Normalization.BatchNorm norm -> norm.epilogue();
            default -> Epilogue.NONE;
        };
        FormulaOp activation = epilogue.activation();
        return activation == null ? op.name() : op.name() + " with " + activation.name();
    }

    private static String describe(Spec spec) {
        return spec.dtype() + " " + spec.shape();
    }
}
