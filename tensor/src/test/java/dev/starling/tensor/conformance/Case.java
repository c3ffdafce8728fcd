package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Backward;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.Where;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/**
 * An operation on given operands.
 *
 * @param op the operation, which may name the device that it runs on
 * @param operands recipes of its operands
 * @param tolerance of its results, compared with the reference
 * @param smooth whether its gradient is compared too
 */
record Case(Function<Device, Op> op, List<Operand> operands, Tolerance tolerance, boolean smooth) {
    static Case of(Op op, Tolerance tolerance, Operand... operands) {
        return new Case(device -> op, List.of(operands), tolerance, true);
    }

    /** Returns the case with all operands in one layout. */
    Case in(Layout layout) {
        return new Case(op, operands.stream().map(o -> o.with(layout)).toList(), tolerance, smooth);
    }

    /** Returns whether its operands have elements, without gaps between them. */
    boolean isDense() {
        return operands.stream().allMatch(o -> o.layout() == Layout.DENSE && o.shape().count() > 0);
    }

    /**
     * Returns the case without a comparison of gradients, because there is none at its operands, or because they are
     * too many.
     */
    Case valuesOnly() {
        return new Case(op, operands, tolerance, false);
    }

    Op on(Device device) {
        return op.apply(device);
    }

    /**
     * Returns the type in which the operation works: that of the first operand other than conditions, or of the result.
     */
    DType dtype() {
        Op operation = on(Device.reference());
        if (operands.isEmpty()) {
            return operation.infer()[0].dtype();
        }
        return operands.get(operation instanceof Where ? 1 : 0).dtype();
    }

    boolean hasGradient() {
        return smooth && on(Device.reference()).differentiable() && operands.stream().anyMatch(
                o -> o.dtype().isFloating());
    }

    Tensor[] inputs(Device device) {
        Tensor[] inputs = new Tensor[operands.size()];
        Arrays.setAll(inputs, i -> operands.get(i).on(device, i + 1));
        return inputs;
    }

    /** Runs the operation and returns its outputs, or its operands if it works in place. */
    Tensor[] run(Device device) {
        Tensor[] inputs = inputs(device);
        Op operation = on(device);
        Tensor[] outputs = Tensor.apply(operation, inputs);
        return operation instanceof Update ? inputs : outputs;
    }

    /** Runs the operation, then its vector-Jacobian product for gradients of all floating operands. */
    Tensor[] gradients(Device device, boolean recorded) {
        Tensor[] inputs = inputs(device);
        Op operation = on(device);
        Tensor[] outputs = Tensor.apply(operation, inputs);
        boolean[] needs = new boolean[inputs.length];
        for (int i = 0; i < needs.length; i++) {
            needs[i] = inputs[i].dtype().isFloating();
        }
        Backward b = new Backward(inputs, outputs, incoming(operation, outputs), needs);
        Tensor[] gradients = recorded ? Recorder.with((o, in, out) -> { }, () -> operation.vjp(b)) : operation.vjp(b);
        for (int i = 0; i < needs.length; i++) {
            gradients[i] = needs[i] ? gradients[i] : null;
        }
        return gradients;
    }

    /** Returns gradients for each floating output; statistics and values kept for the gradient have none. */
    static Tensor[] incoming(Op op, Tensor[] outputs) {
        Tensor[] gradients = new Tensor[outputs.length];
        for (int i = 0; i < gradients.length; i++) {
            boolean flows = outputs[i].dtype().isFloating() && (i == 0
                    || !(op instanceof Normalization || op instanceof Attention))
                    && !(op instanceof Recurrence && i == gradients.length - 1);
            gradients[i] = flows ? Operand.of(outputs[i].dtype(), Values.NORMAL, outputs[i].shape().dims())
                    .on(outputs[i].device(), 100 + i) : null;
        }
        return gradients;
    }

    /** Returns the name of the group of cases of one operation and type. */
    String group() {
        return on(Device.reference()).name() + " " + dtype();
    }

    @Override
    public String toString() {
        return on(Device.reference()) + " of " + operands;
    }
}
