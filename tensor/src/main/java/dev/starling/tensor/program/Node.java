package dev.starling.tensor.program;

import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.Chain;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.profile.Profiling;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** An operation of a program: its operands and results as numbers of values and, once planned, as tensors. */
final class Node {
    private static final int[] NONE = {};

    final Op op;
    final int[] inputs;
    final int[] outputs;
    final Spec[] specs;
    final Device device;
    /** The kernel that carries out this and other operations together, or {@code null}. */
    private final Chain.@Nullable Kernel fused;
    /** The captured nodes that the kernel carries out, in order; none if this node is captured itself. */
    private final List<Node> parts;
    /** The operands, the same tensors in every run. */
    Tensor[] operands = {};
    /** The tensors that the backend allocates while it carries out the operation, in order. */
    final List<Tensor> made = new ArrayList<>();
    /** Whether its results are equal in every run, so that those of the first run are reused. */
    boolean constant;
    /** Carries out the operation on the same memory again, or {@code null}; see {@link Backend#prepare}. */
    private @Nullable Runnable prepared;
    /** The addresses of the operands for which it was prepared. */
    private long[] addresses = {};
    private boolean preparable = true;
    /** By how much the operation increased {@link Backend#reorders}, at capture and in the latest run. */
    long capturedReorders;
    long reorders;

    Node(Op op, int[] inputs, int[] outputs, Spec[] specs, Device device) {
        this(op, inputs, outputs, specs, device, null, List.of());
    }

    private Node(Op op, int[] inputs, int[] outputs, Spec[] specs, Device device, Chain.@Nullable Kernel fused,
            List<Node> parts) {
        this.fused = fused;
        this.parts = parts;
        this.op = op;
        this.inputs = inputs;
        this.outputs = outputs;
        this.specs = specs;
        this.device = device;
    }

    /** Returns a node in place of this one whose {@code kernel} carries out these nodes, of which this is the last. */
    Node fused(int[] from, Chain.Kernel kernel, List<Node> nodes) {
        return new Node(op, from, outputs, specs, device, kernel, nodes);
    }

    /** Returns the captured nodes that this one carries out, in order. */
    List<Node> parts() {
        return parts.isEmpty() ? List.of(this) : parts;
    }

    /** Returns the values whose memory the operation changes. */
    int[] changed() {
        return op instanceof Update update
                ? IntStream.range(0, inputs.length).filter(update::changes).map(i -> inputs[i]).toArray() : NONE;
    }

    /** Returns whether there is nothing to do in a run but the first. */
    boolean isIdle() {
        return constant || op instanceof View;
    }

    boolean varies() {
        return op instanceof Random;
    }

    /** Carries out the operation, or one like it with other parameters, and returns its results. */
    Tensor[] execute(Op renewed) {
        long before = device.backend().reorders();
        Tensor[] results = results(renewed);
        reorders = device.backend().reorders() - before;
        return results;
    }

    /**
     * Carries out the operation as the backend prepared it, or returns false if that must be done by {@link #execute}.
     *
     * @param values the tensors of all values, among them the results of an earlier run
     */
    boolean repeat(Tensor[] values) {
        if (!preparable || prepared == null && !prepare(values)) {
            return false;
        }
        for (int k = 0; k < operands.length; k++) {
            if (operands[k].address() != addresses[k]) {
                return prepare(values) && repeat(values);
            }
        }
        for (int output : outputs) {
            values[output].address(); // Throws if a listener has closed the program.
        }
        OperationEvent event = Profiling.isOn() ? OperationEvent.started() : null;
        long before = device.backend().reorders();
        Objects.requireNonNull(prepared).run();
        reorders = device.backend().reorders() - before;
        if (event != null) {
            event.done(name(op), specs[0]);
        }
        return true;
    }

    private boolean prepare(Tensor[] values) {
        prepared = null; // If this fails, the next run prepares it.
        Tensor[] results = new Tensor[outputs.length];
        Arrays.setAll(results, k -> values[outputs[k]]);
        addresses = Arrays.stream(operands).mapToLong(Tensor::address).toArray();
        prepared = varies() || op instanceof Update || op instanceof Transfer || op instanceof View ? null
                : fused != null ? fused.prepare(operands, results[0]) : device.backend().prepare(op, operands, results);
        preparable = prepared != null;
        return preparable;
    }

    private String name(Op of) {
        return fused != null ? "fused " + of.name() : of.name();
    }

    private Tensor[] results(Op renewed) {
        // Tensor.apply counts versions of updated tensors and transfers tensors between devices.
        if (fused == null
                && (renewed instanceof Update || renewed instanceof Transfer || renewed instanceof View)) {
            return Tensor.apply(renewed, operands);
        }
        OperationEvent event = Profiling.isOn() ? OperationEvent.started() : null;
        Tensor[] results = fused != null ? new Tensor[] {fused.run(operands)}
                : device.backend().run(renewed, operands, specs);
        if (event != null) {
            event.done(name(renewed), specs[0]);
        }
        return results;
    }
}
