package dev.starling.tensor.program;

import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Records the operations of a piece of work while it runs for the first time. */
final class Capture implements Interceptor {
    /** A tensor's id has the number of a range of its thread's ids above these bits. */
    private static final int RANGE_BITS = 32;

    final List<Node> nodes = new ArrayList<>();
    /** By value: the tensor, if it existed before the work or is a constant; {@code null} if a node makes it. */
    final List<Tensor> given = new ArrayList<>();
    /** By value: a value with the same memory; a view has that of its base. */
    final List<Integer> group = new ArrayList<>();
    final List<Mark> marks = new ArrayList<>();
    /** Constants copied for this program alone. */
    final List<Tensor> owned = new ArrayList<>();
    final int inputs;
    private final Map<Long, Integer> numbers = new HashMap<>();
    /** Every value as first seen, so that later views of its memory are recognised. */
    final List<Tensor> seen = new ArrayList<>();
    private final @Nullable Generator generator;
    private final Generator.@Nullable State start;
    private final long firstId;
    private long drawn;
    /** By device: the count at its previous operation. */
    private final Map<Device, Long> reordersBefore = new HashMap<>();

    /** A position in the work: before node {@code node}. */
    record Mark(int node, int label) { }

    /** Begins a capture. The work receives {@code inputs}, tensors that no other code uses. */
    Capture(@Nullable Generator generator, Tensor... inputs) {
        this.generator = generator;
        start = generator == null ? null : generator.state();
        this.inputs = inputs.length;
        firstId = inputs[0].id();
        reordersBefore.put(inputs[0].device(), inputs[0].device().backend().reorders());
        for (Tensor input : inputs) {
            add(input, null);
        }
    }

    private int add(Tensor tensor, @Nullable Tensor givenAs) {
        int number = given.size();
        numbers.put(tensor.id(), number);
        seen.add(tensor);
        given.add(givenAs);
        group.add(number);
        return number;
    }

    @Override
    public void onRead(Tensor tensor) {
        throw new TensorException(TensorException.Problem.ARGUMENT, "capture", List.of(tensor.spec()),
                "the host must not read elements: a replay would not repeat what depends on them",
                "compute with tensors, return the elements as an output, or read them in Program.uncaptured");
    }

    @Override
    public void onOperation(Op op, Tensor[] in, Tensor[] out) {
        int[] operands = new int[in.length];
        for (int i = 0; i < in.length; i++) {
            operands[i] = operand(op, in[i]);
        }
        for (int i = 0; i < in.length; i++) {
            if (op instanceof Update update && update.changes(i) && group.get(operands[i]) < inputs) {
                throw new TensorException(TensorException.Problem.ARGUMENT, "capture", List.of(in[i].spec()),
                        op.name() + " must not change an input", "update a copy");
            }
            if (op instanceof Update update && update.changes(i) && isOwned(operands[i])) {
                throw new TensorException(TensorException.Problem.ARGUMENT, "capture", List.of(in[i].spec()),
                        op.name() + " must not change a tensor that Java code filled during the capture: a run would "
                        + "find it as the last run left it", "make it with operations, such as Tensor.zeros");
            }
        }
        if (op instanceof Random random) {
            draw(random, out[0]);
        }
        int[] results = new int[out.length];
        Spec[] specs = new Spec[out.length];
        for (int k = 0; k < out.length; k++) {
            results[k] = add(out[k], null);
            specs[k] = out[k].spec();
            join(results[k], op, operands, results, k);
        }
        Node node = new Node(op, operands, results, specs, (out.length == 0 ? in[0] : out[0]).device());
        long reorders = node.device.backend().reorders();
        node.capturedReorders = reorders - reordersBefore.getOrDefault(node.device, reorders);
        reordersBefore.put(node.device, reorders);
        nodes.add(node);
    }

    private boolean isOwned(int value) {
        Tensor base = given.get(group.get(value));
        return base != null && owned.contains(base);
    }

    /** Assigns a result to the group of the value whose memory it shares, if there is one. */
    private void join(int result, Op op, int[] operands, int[] results, int before) {
        if (op instanceof View) {
            group.set(result, group.get(operands[0]));
            return;
        }
        Tensor tensor = seen.get(result);
        for (int k = 0; k < before; k++) {
            joinIfShared(result, tensor, results[k]);
        }
        for (int operand : operands) {
            joinIfShared(result, tensor, operand);
        }
    }

    private void joinIfShared(int result, Tensor tensor, int other) {
        if (tensor.sharesMemoryWith(seen.get(other))) {
            group.set(result, group.get(other));
        }
    }

    private int operand(Op op, Tensor tensor) {
        Integer known = numbers.get(tensor.id());
        if (known != null) {
            return known;
        }
        boolean madeByWork = tensor.id() >>> RANGE_BITS == firstId >>> RANGE_BITS && tensor.id() >= firstId;
        for (int i = 0; i < seen.size(); i++) {
            boolean mine = madeByWork || i < inputs;
            if (mine && given.get(i) == null && !seen.get(i).isClosed() && tensor.sharesMemoryWith(seen.get(i))) {
                throw new TensorException(TensorException.Problem.ARGUMENT, "capture", List.of(tensor.spec()),
                        "an operand of " + op.name() + " is a view of the work's memory that no operation made",
                        i < inputs ? "use the input tensors that the work receives" : "make views with operations");
            }
        }
        if (!madeByWork) {
            int number = add(tensor, tensor);
            for (int other = inputs; other < number; other++) {
                if (given.get(other) != null && tensor.sharesMemoryWith(given.get(other))) {
                    group.set(number, group.get(other));
                }
            }
            return number;
        }
        // A tensor that the host computed during the work is a constant; the original is freed with its scope.
        Tensor copy = Interceptor.with(Interceptor.NONE,
                () -> Recorder.with(Recorder.NONE, () -> Scope.detached(tensor::copy)));
        owned.add(copy);
        return add(tensor, copy);
    }

    private void draw(Random op, Tensor result) {
        if (start == null || op.seed() != start.seed() || op.counter() < start.counter()) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "capture", List.of(result.spec()),
                    op.name() + " must draw from the program's generator, or else every run draws the same numbers",
                    "pass the generator to capture and draw only from it");
        }
        drawn = Math.max(drawn, op.counter() + Random.blocks(result.count()) - start.counter());
    }

    void mark(int label) {
        marks.add(new Mark(nodes.size(), label));
    }

    Generator.@Nullable State start() {
        return start;
    }

    /** Returns how many blocks of random numbers the work draws, all of them in operations. */
    long blocks() {
        if (generator == null || start == null) {
            return 0;
        }
        long advanced = generator.state().counter() - start.counter();
        if (advanced != drawn || generator.state().seed() != start.seed()) {
            throw TensorException.argument("capture", "the host must not draw random numbers, but drew "
                    + (advanced - drawn) + " blocks", "draw them before the work and pass them as an input");
        }
        return advanced;
    }

    /** Returns the number of the value that a result of the work has. */
    int output(Tensor tensor) {
        Integer known = numbers.get(tensor.id());
        return known != null ? known : operand(new View.Reshape(tensor.shape()), tensor);
    }
}
