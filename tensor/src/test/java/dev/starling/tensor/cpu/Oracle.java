package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.reference.ReferenceKernels;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/** Runs kernels and the reference kernels, on one thread and on several. */
final class Oracle {
    /** Kernels of one family. */
    interface Kernel {
        Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs);
    }

    private Oracle() {
    }

    /**
     * Asserts that a kernel supports the operands, and that each of its results differs from the reference by at most
     * {@code tolerance}, relative to the reference's largest finite element. Integers and values that are not finite
     * must be equal, and the bits must not depend on the number of threads.
     */
    static Tensor[] check(Kernel kernel, Op op, double tolerance, Tensor... inputs) {
        Spec[] outputs = op.infer(Arrays.stream(inputs).map(Tensor::spec).toArray(Spec[]::new));
        Tensor[] expected = ReferenceKernels.run(op, inputs, outputs);
        Tensor[] one = Parallel.withThreads(1, () -> kernel.run(op, inputs, outputs));
        Tensor[] three = Parallel.withThreads(3, () -> kernel.run(op, inputs, outputs));
        assertThat(one).as("%s on %s has a kernel", op, Arrays.toString(outputs)).isNotNull();
        for (int i = 0; i < outputs.length; i++) {
            assertThat(one[i].spec()).isEqualTo(outputs[i]);
            if (outputs[i].dtype().isFloating()) {
                close(op + " output " + i, one[i].toDoubles(), expected[i].toDoubles(), tolerance);
                assertThat(Arrays.equals(three[i].toDoubles(), one[i].toDoubles())).as("%s: same bits", op).isTrue();
            } else {
                assertThat(one[i].toLongs()).as("%s output %d", op, i).isEqualTo(expected[i].toLongs());
                assertThat(three[i].toLongs()).isEqualTo(one[i].toLongs());
            }
        }
        return one;
    }

    private static void close(String what, double[] actual, double[] expected, double tolerance) {
        double scale = Arrays.stream(expected).filter(Double::isFinite).map(Math::abs).max().orElse(0);
        for (int i = 0; i < expected.length; i++) {
            boolean holds = Double.isFinite(expected[i]) ? Math.abs(actual[i] - expected[i]) <= tolerance * scale
                    : Double.compare(actual[i], expected[i]) == 0;
            if (!holds) {
                assertThat(actual[i]).as("%s, element %d of %d", what, i, expected.length).isEqualTo(expected[i]);
            }
        }
    }

    /** Returns f32 elements between -2 and 2, some of which are equal. */
    static Tensor random(long seed, long... shape) {
        SplittableRandom random = new SplittableRandom(seed);
        int n = (int) Arrays.stream(shape).reduce(1, (a, b) -> a * b);
        float[] elements = new float[n];
        for (int i = 0; i < n; i++) {
            elements[i] = i % 5 == 0 ? random.nextInt(-2, 3) : (float) random.nextDouble(-2, 2);
        }
        return Tensor.of(elements, shape);
    }

    /** Returns {@code x} with some elements that are NaN, infinite or a negative zero. */
    static Tensor withSpecials(Tensor x) {
        float[] elements = x.toFloats();
        float[] specials = {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, -0f, 0f};
        for (int i = 0, k = 0; i < elements.length; i += 7) {
            elements[i] = specials[k++ % specials.length];
        }
        return Tensor.of(elements, x.shape().dims());
    }

    /** Returns tensors with the elements of {@code x}: dense, channels last, with gaps, and backwards. */
    static List<Tensor> layouts(Tensor x) {
        List<Tensor> all = new ArrayList<>();
        all.add(x);
        if (x.rank() == 0) {
            return all;
        }
        if (x.rank() > 1) {
            all.add(x.movedim(1, -1).copy().movedim(-1, 1));
        }
        long[] dims = x.shape().dims();
        dims[dims.length - 1] += 3;
        Tensor wide = Tensor.full(x.dtype(), 0, dims);
        Tensor gaps = wide.narrow(-1, 2, x.size(-1));
        CopyKernels.copy(x, gaps);
        all.add(gaps);
        if (x.count() > 0) {
            all.add(x.flip(-1).copy().flip(-1));
        }
        return all;
    }

    static Tensor indices(DType dtype, long... elements) {
        return Tensor.of(elements).to(dtype);
    }
}
