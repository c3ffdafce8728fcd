package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Runs 16-bit floats by kernels for f32: operands are widened and results rounded once, which is the rounding that
 * operations with f32 accumulation promise anyway.
 */
final class Widened {
    private Widened() {
    }

    /** Returns the results, or {@code null} if no operand has 16-bit floats or there is no f32 kernel either. */
    static Tensor @Nullable [] run(Op op, Tensor[] inputs, Spec[] outputs) {
        if (op instanceof Update || op instanceof Elementwise || Arrays.stream(inputs).noneMatch(Widened::isNarrow)) {
            return null;
        }
        Tensor[] wide = inputs.clone();
        for (int i = 0; i < wide.length; i++) {
            wide[i] = isNarrow(inputs[i]) ? cast(inputs[i], DType.F32) : inputs[i];
        }
        Spec[] specs = outputs.clone();
        for (int i = 0; i < specs.length; i++) {
            specs[i] = isNarrow(outputs[i].dtype()) ? outputs[i].with(DType.F32) : outputs[i];
        }
        Tensor[] results = CpuBackend.runKernel(op, wide, specs);
        for (int i = 0; i < wide.length; i++) {
            Layout.release(wide[i], inputs[i]);
        }
        for (int i = 0; results != null && i < results.length; i++) {
            if (results[i].dtype() != outputs[i].dtype()) {
                Tensor wideResult = results[i];
                results[i] = cast(wideResult, outputs[i].dtype());
                wideResult.close();
            }
        }
        return results;
    }

    private static boolean isNarrow(Tensor x) {
        return isNarrow(x.dtype());
    }

    private static boolean isNarrow(DType type) {
        return type == DType.BF16 || type == DType.F16;
    }

    private static Tensor cast(Tensor x, DType type) {
        return Objects.requireNonNull(ElementwiseKernels.run(new Cast(type), new Tensor[] {x}, x.spec().with(type)))[0];
    }
}
