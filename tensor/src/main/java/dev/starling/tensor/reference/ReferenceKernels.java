package dev.starling.tensor.reference;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Softmax;
import dev.starling.tensor.op.Sorting;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;

/**
 * Every operation in its plainest form: operands of any strides and types; floating results computed in double
 * precision and rounded once to the output's type; integers computed in 64 bits with wrap-around. Backends in host
 * memory may use it for operations without a kernel of their own.
 */
public final class ReferenceKernels {
    private ReferenceKernels() {
    }

    /**
     * Carries out {@code op}.
     *
     * @param inputs operands in host memory
     * @param outputs the specs that {@code infer} returned; allocated in row-major order on their own devices
     * @throws dev.starling.tensor.TensorException if an index is out of range
     */
    public static Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
        if (op instanceof View view) {
            return view.views(inputs[0], outputs);
        }
        Tensor[] results = new Tensor[outputs.length];
        for (int i = 0; i < results.length; i++) {
            results[i] = Storage.allocate(outputs[i]);
        }
        run(op, inputs, results);
        return results;
    }

    private static void run(Op op, Tensor[] in, Tensor[] out) {
        switch (op) {
            case Elementwise o -> ReferenceElementwise.run(o, in, out[0]);
            case Reduction o -> ReferenceReduction.run(o, in[0], out[0]);
            case Scan.CumSum o -> ReferenceOrder.cumSum(o, in[0], out[0]);
            case Sorting o -> ReferenceOrder.sort(o, in[0], out[0], out[1]);
            case Movement o -> ReferenceMovement.run(o, in, out[0]);
            case Selection o -> ReferenceSelection.run(o, in, out[0]);
            case Contraction o -> ReferenceContraction.run(o, in, out);
            case Convolution o -> ReferenceConvolution.run(o, in, out);
            case Pooling o -> ReferencePooling.run(o, in, out);
            case Normalization o -> ReferenceNormalization.run(o, in, out);
            case Softmax o -> ReferenceSoftmax.run(o, in, out[0]);
            case Attention o -> ReferenceAttention.run(o, in, out);
            case Recurrence o -> ReferenceRecurrence.run(o, in, out);
            case CrossEntropy o -> ReferenceSoftmax.run(o, in, out);
            case Random o -> ReferenceRandom.run(o, in, out[0]);
            case Fill o -> ReferenceRandom.fill(o, out[0]);
            case Update o -> ReferenceUpdate.run(o, in);
            case Transfer o -> ReferenceMovement.copy(in[0], out[0]);
            case View o -> throw new AssertionError("views never reach a backend: " + o);
        }
    }

    static double apply(Epilogue epilogue, double x) {
        return epilogue.activation() == null ? x : FormulaInterpreter.value(epilogue.activation(), x);
    }
}
