package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Which attention libraries compute, among others that of heads as a layer's projection produces them. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class AttentionLibraryTest {
    private static final Attention FORWARD = new Attention.ScaledDotProduct(0.25, true);
    private static final Attention BACKWARD = new Attention.ScaledDotProductGradient(0.25, true);

    @AfterEach
    void librariesReportNoMisuse() {
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
    }

    /** The library runs one operation for each pass; results equal the CPU's, in a layout with heads side by side. */
    @Test
    void attendsByLibrary() {
        try (Scope scope = Scope.open()) {
            Tensor[] host = heads(DType.BF16, 16, Device.cpu());
            Tensor[] there = heads(DType.BF16, 16, Device.of("cuda-emulated", 1));
            long before = FakeLibraries.computed();
            Tensor[] y = Tensor.apply(FORWARD, there);
            assertThat(FakeLibraries.computed() - before).isEqualTo(1);
            assertThat(y[0].permute(0, 2, 1, 3).isContiguous()).isTrue();
            Tensor[] expected = Tensor.apply(FORWARD, host);
            close(y, expected);
            before = FakeLibraries.computed();
            Tensor[] gradients = Tensor.apply(BACKWARD, there[0], there[0], there[1], there[2], y[0], y[1]);
            assertThat(FakeLibraries.computed() - before).isEqualTo(1);
            close(gradients, Tensor.apply(BACKWARD, host[0], host[0], host[1], host[2], expected[0], expected[1]));
        }
    }

    /** Masks that select or are added, broadcast or not, with or without a causal one, and with rows that hide all. */
    @Test
    void attendsUnderMasksByLibrary() {
        for (DType type : new DType[] {DType.BF16, DType.F16}) {
            for (boolean causal : new boolean[] {false, true}) {
                for (Shape shape : new Shape[] {Shape.of(9), Shape.of(9, 9), Shape.of(2, 1, 1, 9),
                    Shape.of(3, 9, 9), Shape.of(2, 3, 9, 9)}) {
                    for (boolean chosen : new boolean[] {false, true}) {
                        attend(type, causal, mask(shape, chosen, type));
                    }
                }
            }
        }
    }

    /** Under the mask, query 0 sees no key before 2, so a causal mask hides all from it. Other rows hide all keys. */
    private static float[] mask(Shape shape) {
        float[] mask = new float[(int) shape.count()];
        int keys = 9;
        for (int i = 0; i < mask.length; i++) {
            int row = i / keys;
            boolean closed = shape.rank() > 1 && (shape.rank() == 4 && shape.dim(2) == 1 ? row == 1 : row % 9 == 4);
            mask[i] = closed || i % keys < 2 || i % keys == 7 ? Float.NEGATIVE_INFINITY : i % 3;
        }
        return mask;
    }

    private static Tensor mask(Shape shape, boolean chosen, DType type) {
        try (Scope scope = Scope.open()) {
            Tensor added = Tensor.of(mask(shape), shape.dims());
            return scope.keep(chosen ? added.ge(0) : added.to(type));
        }
    }

    private static void attend(DType type, boolean causal, Tensor mask) {
        try (Scope scope = Scope.open()) {
            Attention forward = new Attention.ScaledDotProduct(0.25, causal);
            Attention backward = new Attention.ScaledDotProductGradient(0.25, causal);
            Tensor[] host = heads(type, 16, Device.cpu());
            Tensor[] there = heads(type, 16, Device.of("cuda-emulated", 1));
            Tensor hidden = mask.to(there[0].device());
            long before = FakeLibraries.computed();
            Tensor[] y = Tensor.apply(forward, there[0], there[1], there[2], hidden);
            Tensor[] gradients = Tensor.apply(backward, there[0], there[0], there[1], there[2], y[0], y[1], hidden);
            assertThat(FakeLibraries.computed() - before).isEqualTo(2);
            // With a selecting mask, the CPU returns 0 for rows that hide all keys.
            Tensor chosen = mask.dtype() == DType.BOOL ? mask : mask.to(DType.F32).ge(0);
            Tensor added = mask.dtype() == DType.BOOL ? Tensor.zeros(1) : mask.to(DType.F32);
            Tensor[] wide = {host[0].to(DType.F32), host[1].to(DType.F32), host[2].to(DType.F32)};
            Tensor finite = added.maximum(Tensor.zeros(1));
            Tensor weights = weights(wide, finite, chosen, causal);
            close(new Tensor[] {y[0]}, new Tensor[] {weights.matmul(wide[2])});
            Tensor slopes = wide[0].matmul(wide[2].t());
            Tensor scores = weights.mul(slopes.sub(slopes.mul(weights).sum(true, -1)));
            close(gradients, new Tensor[] {scores.matmul(wide[1]).mul(0.25), scores.t().matmul(wide[0]).mul(0.25),
                weights.t().matmul(wide[0])});
            for (double log : y[1].toDoubles()) {
                assertThat(log).isLessThan(Double.POSITIVE_INFINITY);
            }
        }
    }

    /** Weights by definition: exponentials of scores, 0 where hidden, divided by their sum, or 0 if that is 0. */
    private static Tensor weights(Tensor[] in, Tensor added, Tensor chosen, boolean causal) {
        Tensor e = in[0].matmul(in[1].t()).mul(0.25).add(added).exp().mul(chosen.to(DType.F32));
        if (causal) {
            float[] past = new float[81];
            for (int i = 0; i < past.length; i++) {
                past[i] = i % 9 <= i / 9 ? 1 : 0;
            }
            e = e.mul(Tensor.of(past, 9, 9));
        }
        Tensor sum = e.sum(true, -1);
        return e.div(sum.add(sum.eq(0).to(DType.F32)));
    }

    /** Starling's own kernels compute what {@link LibraryFaults} declines. */
    @Test
    void doesNotUseTheLibraryForKnownFaults() {
        try (Scope scope = Scope.open()) {
            Tensor[] there = heads(DType.BF16, 16, Device.of("cuda-emulated", 1));
            Tensor[] host = heads(DType.BF16, 16, Device.cpu());
            Tensor one = there[0].narrow(2, 0, 1);
            long before = FakeLibraries.computed();
            Tensor[] y = Tensor.apply(FORWARD, one, there[1], there[2]);
            assertThat(FakeLibraries.computed() - before).isEqualTo(1);
            Tensor[] gradients = Tensor.apply(BACKWARD, one, one, there[1], there[2], y[0], y[1]);
            assertThat(FakeLibraries.computed() - before).as("the gradient of one query").isEqualTo(1);
            Tensor first = host[0].narrow(2, 0, 1);
            Tensor[] expected = Tensor.apply(FORWARD, first, host[1], host[2]);
            close(gradients, Tensor.apply(BACKWARD, first, first, host[1], host[2], expected[0], expected[1]));
        }
    }

    @Test
    void doesNotUseTheLibraryForOtherTypesAndWidths() {
        try (Scope scope = Scope.open()) {
            for (Tensor[] operands : new Tensor[][] {heads(DType.F32, 16, Device.of("cuda-emulated", 1)),
                heads(DType.BF16, 12, Device.of("cuda-emulated", 1))}) {
                long before = FakeLibraries.computed();
                Tensor.apply(FORWARD, operands);
                assertThat(FakeLibraries.computed()).isEqualTo(before);
            }
        }
    }

    /** Returns queries, keys and values [2, 3, 9, width] as views of one tensor [2, 9, 3, 3, width]. */
    private static Tensor[] heads(DType type, long width, Device device) {
        Spec spec = new Spec(DType.F32, Shape.of(2, 9, 3, 3, width), Device.cpu());
        Tensor all = Generator.seeded(5).normal(spec, 0, 1).to(type).to(device).permute(2, 0, 3, 1, 4);
        return new Tensor[] {all.narrow(0, 0, 1).squeeze(0), all.narrow(0, 1, 1).squeeze(0),
            all.narrow(0, 2, 1).squeeze(0)};
    }

    private static void close(Tensor[] actual, Tensor[] expected) {
        for (int i = 0; i < expected.length; i++) {
            double[] a = actual[i].toDoubles();
            double[] e = expected[i].toDoubles();
            for (int k = 0; k < e.length; k++) {
                assertThat(Math.abs(a[k] - e[k])).isLessThanOrEqualTo(0.02 * (1 + Math.abs(e[k])));
            }
        }
    }
}
