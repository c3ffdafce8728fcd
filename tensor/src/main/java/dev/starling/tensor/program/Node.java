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
import java.util.List;
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
            event.done(fused != null ? "fused " + renewed.name() : renewed.name(), specs[0]);
        }
        return results;
    }
}
