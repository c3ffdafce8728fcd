package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.emulated.PlayedLibraries;
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

/** Which attention libraries are asked for: that of heads as a layer's projection leaves them, among others. */
@EnabledIf(value = "dev.starling.cuda.emulated.PlayedLibraries#arePossible",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class AttentionLibraryTest {
    private static final Attention FORWARD = new Attention.ScaledDotProduct(0.25, true);
    private static final Attention BACKWARD = new Attention.ScaledDotProductGradient(0.25, true);

    @AfterEach
    void librariesHadNothingToComplainOf() {
        assertThat(PlayedLibraries.complaint()).isEmpty();
    }

    /** One operation of the library for each; what comes out is the CPU's, and lies so that heads are side by side. */
    @Test
    void shouldAttendByLibrary() {
        try (Scope scope = Scope.open()) {
            Tensor[] host = heads(DType.BF16, 16, Device.cpu());
            Tensor[] there = heads(DType.BF16, 16, Device.of("cuda-emulated", 1));
            long before = PlayedLibraries.computed();
            Tensor[] y = Tensor.apply(FORWARD, there);
            assertThat(PlayedLibraries.computed() - before).isEqualTo(1);
            assertThat(y[0].permute(0, 2, 1, 3).isContiguous()).isTrue();
            Tensor[] expected = Tensor.apply(FORWARD, host);
            close(y, expected);
            before = PlayedLibraries.computed();
            Tensor[] gradients = Tensor.apply(BACKWARD, there[0], there[0], there[1], there[2], y[0], y[1]);
            assertThat(PlayedLibraries.computed() - before).isEqualTo(1);
            close(gradients, Tensor.apply(BACKWARD, host[0], host[0], host[1], host[2], expected[0], expected[1]));
        }
    }

    @Test
    void shouldDoWithoutForOtherTypesAndWidths() {
        try (Scope scope = Scope.open()) {
            for (Tensor[] operands : new Tensor[][] {heads(DType.F32, 16, Device.of("cuda-emulated", 1)),
                heads(DType.BF16, 12, Device.of("cuda-emulated", 1))}) {
                long before = PlayedLibraries.computed();
                Tensor.apply(FORWARD, operands);
                assertThat(PlayedLibraries.computed()).isEqualTo(before);
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
