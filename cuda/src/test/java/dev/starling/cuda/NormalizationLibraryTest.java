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
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Which normalisations libraries are asked for, with the CPU as oracle. */
@EnabledIf(value = "dev.starling.cuda.emulated.PlayedLibraries#arePossible",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class NormalizationLibraryTest {
    private static final Device GPU = Device.of("cuda-emulated", 1);

    private final Generator generator = Generator.seeded(11);

    @AfterEach
    void librariesHadNothingToComplainOf() {
        assertThat(PlayedLibraries.complaint()).isEmpty();
    }

    @Test
    void shouldNormaliseBatchesByLibrary() {
        for (DType type : new DType[] {DType.F32, DType.BF16, DType.F16}) {
            for (Epilogue epilogue : List.of(Epilogue.NONE, Epilogue.RELU)) {
                for (Shape shape : new Shape[] {Shape.of(3, 8, 5, 3), Shape.of(7, 16), Shape.of(2, 8, 9)}) {
                    try (Scope scope = Scope.open()) {
                        Tensor x = lastly(random(type, shape));
                        Tensor g = lastly(random(type, shape));
                        Tensor[] weights = {random(DType.F32, Shape.of(shape.dim(1))),
                            random(DType.F32, Shape.of(shape.dim(1)))};
                        Op forward = new Normalization.BatchNorm(1e-3, epilogue);
                        Tensor[] y = compared(1, forward, x, weights[0], weights[1]);
                        compared(1, new Normalization.BatchNormGradient(epilogue), g, x, weights[0], y[0], y[1], y[2]);
                    }
                }
            }
        }
    }

    @Test
    void shouldNormaliseRowsByLibrary() {
        for (DType type : new DType[] {DType.F32, DType.BF16, DType.F16}) {
            try (Scope scope = Scope.open()) {
                Tensor x = random(type, Shape.of(5, 2, 13));
                Tensor gamma = random(DType.F32, Shape.of(13));
                Tensor[] y = compared(1, new Normalization.LayerNorm(1e-3), x, gamma,
                        random(DType.F32, Shape.of(13)));
                compared(1, new Normalization.LayerNormGradient(), random(type, Shape.of(5, 2, 13)), x, gamma, y[1],
                        y[2]);
            }
        }
    }

    /** Channels that fill no 16 bytes, other layouts, weights of 16 bits, f64, what the library has no engine for. */
    @Test
    void shouldDoWithoutElsewhere() {
        try (Scope scope = Scope.open()) {
            for (Tensor other : new Tensor[] {lastly(random(DType.BF16, Shape.of(3, 4, 5, 3))),
                random(DType.F32, Shape.of(3, 8, 5, 3)), lastly(random(DType.F64, Shape.of(3, 8, 5, 3)))}) {
                DType weights = other.dtype() == DType.F64 ? DType.F64 : DType.F32;
                compared(0, new Normalization.BatchNorm(1e-3, Epilogue.RELU), other,
                        random(weights, Shape.of(other.size(1))), random(weights, Shape.of(other.size(1))));
            }
            Tensor x = lastly(random(DType.BF16, Shape.of(2, 24, 5)));
            Tensor gamma = random(DType.F32, Shape.of(24));
            Tensor[] y = compared(0, new Normalization.BatchNorm(1e-3, Epilogue.RELU), x, gamma, gamma);
            compared(0, new Normalization.BatchNormGradient(Epilogue.RELU), x, x, gamma, y[0], y[1], y[2]);
            compared(0, new Normalization.LayerNorm(1e-3), random(DType.BF16, Shape.of(4, 8)),
                    random(DType.BF16, Shape.of(8)), random(DType.BF16, Shape.of(8)));
            compared(0, new Normalization.LayerNorm(1e-3), random(DType.F32, Shape.of(4, 3)),
                    random(DType.F32, Shape.of(3)), random(DType.F32, Shape.of(3)));
        }
    }

    /** Runs an operation there and on the CPU, and returns the CPU's results. */
    private static Tensor[] compared(int byLibrary, Op op, Tensor... operands) {
        Tensor[] there = Arrays.stream(operands).map(NormalizationLibraryTest::alike).toArray(Tensor[]::new);
        long before = PlayedLibraries.computed();
        Tensor[] actual = Tensor.apply(op, there);
        assertThat(PlayedLibraries.computed() - before).as(op + " of " + operands[0].spec()).isEqualTo(byLibrary);
        Tensor[] expected = Tensor.apply(op, operands);
        for (int i = 0; i < expected.length; i++) {
            double[] a = actual[i].toDoubles();
            double[] e = expected[i].toDoubles();
            double tolerance = switch (expected[i].dtype()) {
                case BF16 -> 0.02;
                case F16 -> 4e-3;
                default -> 1e-4;
            };
            for (int k = 0; k < e.length; k++) {
                assertThat(Math.abs(a[k] - e[k])).as(op + " of " + operands[0].spec())
                        .isLessThanOrEqualTo(tolerance * (1 + Math.abs(e[k])));
            }
        }
        return expected;
    }

    /** A copy there that lies as the original does. */
    private static Tensor alike(Tensor x) {
        Tensor y = x.to(GPU);
        return x.rank() > 1 && ChannelsLast.holds(x) ? lastly(y) : y;
    }

    private static Tensor lastly(Tensor x) {
        if (x.rank() < 3) {
            return x;
        }
        int[] order = new int[x.rank()];
        int[] back = new int[x.rank()];
        for (int d = 0; d < order.length; d++) {
            order[d] = d == 0 ? 0 : d == order.length - 1 ? 1 : d + 1;
            back[order[d]] = d;
        }
        return x.permute(order).contiguous().permute(back);
    }

    private Tensor random(DType type, Shape shape) {
        return generator.normal(new Spec(DType.F32, shape, Device.cpu()), 0.5, 1).to(type);
    }
}
